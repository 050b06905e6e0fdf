package org.ep4j.cuda.engine;

import java.time.Duration;
import java.util.stream.IntStream;
import org.ep4j.conformance.EngineKit;
import org.ep4j.conformance.world.ProcessWorld;
import org.ep4j.conformance.world.World;

/** Memory shared between processes; the semantics are those of threads, so fewer cases. */
class CudaEngineOnProcessesTest extends EngineKit {
  @Override
  protected String engine() {
    return "cuda";
  }

  @Override
  protected IntStream worldSizes() {
    return IntStream.of(2, 4);
  }

  @Override
  protected int cases() {
    return 24;
  }

  @Override
  protected World world() {
    return new ProcessWorld(Duration.ofMinutes(5), Duration.ofSeconds(10));
  }
}
