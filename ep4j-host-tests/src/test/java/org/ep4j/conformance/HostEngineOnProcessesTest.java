package org.ep4j.conformance;

import java.util.stream.IntStream;
import org.ep4j.conformance.world.ProcessWorld;
import org.ep4j.conformance.world.World;

class HostEngineOnProcessesTest extends EngineKit {
  @Override
  protected String engine() {
    return "host";
  }

  /** Starting JVMs is slow; the test on threads covers every size. */
  @Override
  protected IntStream worldSizes() {
    return IntStream.of(2, 3);
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
