package org.ep4j.nvshmem;

import java.time.Duration;
import java.util.stream.IntStream;
import org.ep4j.conformance.EngineKit;
import org.ep4j.conformance.world.ProcessWorld;
import org.ep4j.conformance.world.World;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.BeforeAll;

/** The CUDA engine over NVSHMEM, one process per rank. */
class NvshmemOnProcessesTest extends EngineKit {
  @BeforeAll
  static void choose() {
    Gpus.choose();
  }

  @AfterAll
  static void chooseNot() {
    Gpus.chooseNot();
  }

  @Override
  protected String engine() {
    return "cuda";
  }

  @Override
  protected String missing() {
    return Gpus.lacking(2);
  }

  @Override
  protected IntStream worldSizes() {
    return Gpus.worlds();
  }

  /** Each case opens a buffer, which takes longer with a library. */
  @Override
  protected int cases() {
    return 12;
  }

  @Override
  protected World world() {
    return new ProcessWorld(Duration.ofMinutes(5), Duration.ofSeconds(10));
  }
}
