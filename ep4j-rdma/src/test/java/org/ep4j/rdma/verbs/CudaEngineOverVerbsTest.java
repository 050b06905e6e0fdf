package org.ep4j.rdma.verbs;

import java.time.Duration;
import java.util.stream.IntStream;
import org.ep4j.config.EngineName;
import org.ep4j.conformance.EngineKit;
import org.ep4j.conformance.VectorKit;
import org.ep4j.conformance.world.ThreadWorld;
import org.ep4j.conformance.world.World;
import org.junit.jupiter.api.Nested;
import org.junit.jupiter.api.condition.EnabledIf;
import org.junit.jupiter.api.parallel.Isolated;

/**
 * GPUs of several nodes over verbs: on a machine with GPUs and g++, over emulated devices. {@code
 * docs/design/soft-verbs.md} has the command.
 */
@EnabledIf(value = "org.ep4j.rdma.verbs.Fabric#hasCables", disabledReason = Fabric.REASON)
class CudaEngineOverVerbsTest extends RecoveryOverVerbsKit {
  /** Two ports with four queue pairs each, so lanes of one operation take eight ways. */
  private static final String MANY_LANES = "verbs-2x4";

  @Override
  String engine() {
    return EngineName.CUDA;
  }

  @Nested
  class RandomCases extends EngineKit {
    @Override
    protected String engine() {
      return EngineName.CUDA;
    }

    @Override
    protected IntStream worldSizes() {
      return IntStream.of(2, 3, 4);
    }

    @Override
    protected World world() {
      return new ThreadWorld(Duration.ofMinutes(5));
    }

    @Override
    protected String wire() {
      return MANY_LANES;
    }

    @Override
    protected boolean masks() {
      return false;
    }
  }

  /** Recorded vectors of low latency. */
  @Nested
  class RecordedVectors extends VectorKit {
    @Override
    protected String engine() {
      return EngineName.CUDA;
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
      return RANKS_PER_NODE;
    }

    @Override
    protected String wire() {
      return MANY_LANES;
    }
  }

  /** Rows that pass through memory of the hosts. */
  @Nested
  class QueuePairs extends QueuePairsKit {
    @Override
    String engine() {
      return EngineName.CUDA;
    }

    /** Half of what each of eight lanes carries if rows are spread evenly. */
    @Override
    long share() {
      return 290_000;
    }

    /**
     * A warp sends a token. Four of them, one for each ring, share a lane: two such groups a lane.
     */
    @Override
    int lowLatencyTokens() {
      return 64;
    }
  }

  /** Ports that read and write memory of GPUs. */
  @Nested
  class QueuePairsWithGpuDirect extends QueuePairs {
    @Override
    boolean gpuDirect() {
      return true;
    }
  }

  @Nested
  @Isolated
  class FaultyPaths extends FaultyPathsKit {
    @Override
    String engine() {
      return EngineName.CUDA;
    }
  }

  @Nested
  @Isolated
  class FaultyPathsWithGpuDirect extends FaultyPaths {
    @Override
    boolean gpuDirect() {
      return true;
    }
  }
}
