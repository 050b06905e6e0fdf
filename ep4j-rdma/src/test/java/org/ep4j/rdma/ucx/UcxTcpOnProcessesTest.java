package org.ep4j.rdma.ucx;

import org.ep4j.conformance.world.ProcessWorld;
import org.ep4j.conformance.world.World;

class UcxTcpOnProcessesTest extends UcxWireKit {
  @Override
  protected String transports() {
    return "tcp";
  }

  @Override
  protected boolean inEveryBuild() {
    return false;
  }

  @Override
  protected World world() {
    return new ProcessWorld();
  }
}
