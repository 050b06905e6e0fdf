package org.ep4j.rdma.ucx;

import org.ep4j.conformance.world.ProcessWorld;
import org.ep4j.conformance.world.World;

class UcxSharedMemoryOnProcessesTest extends UcxWireKit {
  @Override
  protected String transports() {
    return "posix";
  }

  @Override
  protected boolean inEveryBuild() {
    return true;
  }

  @Override
  protected World world() {
    return new ProcessWorld();
  }

  @Override
  protected boolean variant() {
    return true;
  }
}
