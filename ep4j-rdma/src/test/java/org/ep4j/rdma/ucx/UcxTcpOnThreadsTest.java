package org.ep4j.rdma.ucx;

import org.ep4j.conformance.world.ThreadWorld;
import org.ep4j.conformance.world.World;

class UcxTcpOnThreadsTest extends UcxWireKit {
  @Override
  protected String transports() {
    return "tcp";
  }

  @Override
  protected boolean inEveryBuild() {
    return true;
  }

  @Override
  protected World world() {
    return new ThreadWorld();
  }
}
