package org.ep4j.conformance.wire;

import org.ep4j.conformance.world.ThreadWorld;
import org.ep4j.conformance.world.World;

class TcpWireTest extends WireKit {
  @Override
  protected WireSetup setup() {
    return WireSetup.of("tcp");
  }

  @Override
  protected World world() {
    return new ThreadWorld();
  }
}
