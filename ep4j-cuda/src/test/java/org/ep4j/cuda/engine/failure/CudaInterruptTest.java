package org.ep4j.cuda.engine.failure;

import java.time.Duration;
import java.util.stream.IntStream;
import org.ep4j.conformance.InterruptKit;
import org.ep4j.conformance.world.ProcessWorld;
import org.ep4j.conformance.world.ThreadWorld;
import org.ep4j.conformance.world.World;
import org.junit.jupiter.api.Nested;

/** Interrupts of operations on devices, at random moments. */
class CudaInterruptTest {
  private static final Duration LIMIT = Duration.ofMinutes(4);

  /** Within one node. */
  @Nested
  class InANode extends InterruptKit {
    @Override
    protected String engine() {
      return "cuda";
    }

    @Override
    protected World world() {
      return new ThreadWorld(LIMIT);
    }
  }

  /** Same as {@link InANode} with one process per rank. */
  @Nested
  class OnProcesses extends InterruptKit {
    @Override
    protected String engine() {
      return "cuda";
    }

    @Override
    protected World world() {
      return new ProcessWorld(LIMIT, Duration.ofSeconds(10));
    }
  }

  /** Two ranks per node; kernels write the memory of other nodes. */
  @Nested
  class Mapped extends InterruptKit {
    @Override
    protected String engine() {
      return "cuda";
    }

    @Override
    protected World world() {
      return new ThreadWorld(LIMIT);
    }

    /** Two ranks would be one node. */
    @Override
    protected IntStream worldSizes() {
      return IntStream.of(3, 4);
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
  class OverAWire extends Mapped {
    @Override
    protected String wire() {
      return "tcp";
    }
  }
}
