package org.ep4j.conformance.wire;

import org.ep4j.conformance.ProcessWorld;
import org.ep4j.conformance.World;

class TcpWireOnProcessesTest extends WireKit {
  @Override
  protected WireSetup setup() {
    return WireSetup.of("tcp");
  }

  @Override
  protected World world() {
    return new ProcessWorld();
  }
}
