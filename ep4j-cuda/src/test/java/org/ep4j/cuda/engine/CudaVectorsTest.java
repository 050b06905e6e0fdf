package org.ep4j.cuda.engine;

import java.time.Duration;
import org.ep4j.conformance.VectorKit;
import org.ep4j.conformance.world.ProcessWorld;
import org.ep4j.conformance.world.ThreadWorld;
import org.ep4j.conformance.world.World;
import org.junit.jupiter.api.Nested;

/** Recorded vectors on devices. */
class CudaVectorsTest {
  /** One thread per rank. */
  @Nested
  class OnThreads extends VectorKit {
    @Override
    protected String engine() {
      return "cuda";
    }

    @Override
    protected World world() {
      return new ThreadWorld(Duration.ofMinutes(5));
    }
  }

  /** Low latency with two ranks per node and no shared memory between nodes. */
  @Nested
  class AcrossNodes extends VectorKit {
    @Override
    protected String engine() {
      return "cuda";
    }

    @Override
    protected World world() {
      return new ThreadWorld(Duration.ofMinutes(5));
    }

    @Override
    protected boolean highThroughput() {
      return false;
    }

    @Override
    protected int ranksPerNode() {
      return 2;
    }

    @Override
    protected String wire() {
      return "staged";
    }
  }

  /** One process per rank. */
  @Nested
  class OnProcesses extends VectorKit {
    @Override
    protected String engine() {
      return "cuda";
    }

    @Override
    protected World world() {
      return new ProcessWorld(Duration.ofMinutes(5), Duration.ofSeconds(10));
    }
  }
}
