package org.ep4j.conformance;

import java.util.stream.IntStream;
import org.ep4j.conformance.world.ProcessWorld;
import org.ep4j.conformance.world.World;

/** Nodes of processes, of random sizes, over TCP. */
class HostEngineOverTcpOnProcessesTest extends EngineKit {
  @Override
  protected String engine() {
    return "host";
  }

  @Override
  protected String wire() {
    return "tcp";
  }

  /** Starting JVMs is slow; the test on threads covers every size. */
  @Override
  protected IntStream worldSizes() {
    return IntStream.of(3, 4);
  }

  @Override
  protected int cases() {
    return 16;
  }

  @Override
  protected World world() {
    return new ProcessWorld();
  }
}
