package org.ep4j.cuda.engine.failure;

import java.time.Duration;
import org.ep4j.conformance.ResetKit;
import org.ep4j.conformance.world.ProcessWorld;
import org.ep4j.conformance.world.ThreadWorld;
import org.ep4j.conformance.world.World;
import org.junit.jupiter.api.Nested;

/** Missed deadlines on devices. */
class CudaResetTest {
  /** Within one node. */
  @Nested
  class InANode extends ResetKit {
    @Override
    protected String engine() {
      return "cuda";
    }

    @Override
    protected World world() {
      return new ThreadWorld(Duration.ofMinutes(2));
    }
  }

  /** Two ranks per node; kernels write the memory of other nodes. */
  @Nested
  class Mapped extends ResetKit {
    @Override
    protected String engine() {
      return "cuda";
    }

    @Override
    protected World world() {
      return new ThreadWorld(Duration.ofMinutes(2));
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

  /** Two ranks per node; the proxy puts the data of kernels. */
  @Nested
  class OverAWire extends ResetKit {
    @Override
    protected String engine() {
      return "cuda";
    }

    @Override
    protected World world() {
      return new ThreadWorld(Duration.ofMinutes(2));
    }

    @Override
    protected int ranksPerNode() {
      return 2;
    }

    @Override
    protected String wire() {
      return "tcp";
    }
  }

  /** Same as {@link Mapped} with one process per rank. */
  @Nested
  class MappedOnProcesses extends Mapped {
    @Override
    protected World world() {
      return new ProcessWorld();
    }
  }
}
