package org.ep4j.rdma.ucx;

import org.ep4j.conformance.ThreadWorld;
import org.ep4j.conformance.World;

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
