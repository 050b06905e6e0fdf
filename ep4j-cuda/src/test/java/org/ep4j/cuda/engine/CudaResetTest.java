package org.ep4j.cuda.engine;

import java.time.Duration;
import org.ep4j.conformance.ProcessWorld;
import org.ep4j.conformance.ResetKit;
import org.ep4j.conformance.ThreadWorld;
import org.ep4j.conformance.World;
import org.junit.jupiter.api.Nested;

/** Missed deadlines on devices. */
class CudaResetTest {
  /** In one node. */
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

  /** Two ranks a node, kernels write the memory of the other nodes. */
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

  /** Two ranks a node, the proxy puts what kernels write. */
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

  /** The same as {@link Mapped}, a rank per process. */
  @Nested
  class MappedOnProcesses extends Mapped {
    @Override
    protected World world() {
      return new ProcessWorld();
    }
  }
}
