package org.ep4j.conformance;

import java.util.stream.IntStream;
import org.ep4j.conformance.world.ProcessWorld;
import org.ep4j.conformance.world.World;

/** Nodes of processes of one host, of random sizes, over the wire in shared memory. */
class HostEngineOverSharedMemoryTest extends EngineKit {
  @Override
  protected String engine() {
    return "host";
  }

  @Override
  protected String wire() {
    return "shm";
  }

  /** Starting JVMs is slow; the test on threads covers every size. */
  @Override
  protected IntStream worldSizes() {
    return IntStream.of(5);
  }

  @Override
  protected int cases() {
    return 8;
  }

  @Override
  protected World world() {
    return new ProcessWorld();
  }
}
