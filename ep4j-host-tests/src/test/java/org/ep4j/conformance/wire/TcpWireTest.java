package org.ep4j.conformance.wire;

import org.ep4j.conformance.ThreadWorld;
import org.ep4j.conformance.World;

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
