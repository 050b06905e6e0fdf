package org.ep4j.conformance.wire;

import org.ep4j.conformance.world.ThreadWorld;
import org.ep4j.conformance.world.World;

class TcpWireOnSeveralConnectionsTest extends WireKit {
  /** More connections than lanes, and enough for a selector. */
  @Override
  protected WireSetup setup() {
    return WireSetup.of("tcp").withConnections(5);
  }

  @Override
  protected World world() {
    return new ThreadWorld();
  }

  @Override
  protected boolean variant() {
    return true;
  }
}
