package org.ep4j.rdma.ucx;

import org.ep4j.conformance.world.ThreadWorld;
import org.ep4j.conformance.world.World;

class UcxSharedMemoryOnThreadsTest extends UcxWireKit {
  @Override
  protected String transports() {
    return "posix";
  }

  @Override
  protected boolean inEveryBuild() {
    return false;
  }

  @Override
  protected World world() {
    return new ThreadWorld();
  }
}
