package org.ep4j.nvshmem;

import java.time.Duration;
import java.util.stream.IntStream;
import org.ep4j.config.WireName;
import org.ep4j.conformance.EngineKit;
import org.ep4j.conformance.ResetKit;
import org.ep4j.conformance.VectorKit;
import org.ep4j.conformance.world.ProcessWorld;
import org.ep4j.conformance.world.World;
import org.ep4j.cuda.driver.CudaDevice;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Nested;

/** The CUDA engine between nodes with puts by NVSHMEM's device library. */
class NvshmemAcrossNodesTest {
  @BeforeAll
  static void choose() {
    Gpus.choose();
  }

  @AfterAll
  static void chooseNot() {
    Gpus.chooseNot();
  }

  private static String lackingHere() {
    String lacking = Gpus.lacking(2);
    return lacking.isEmpty() ? NvshmemDevice.problem() : lacking;
  }

  /** The first open on a rank links kernels, which takes some time. */
  private static World processes() {
    return new ProcessWorld(Duration.ofMinutes(8), Duration.ofSeconds(10));
  }

  /** Random cases, in nodes of all sizes. */
  @Nested
  class AnyNodes extends EngineKit {
    @Override
    protected String engine() {
      return "cuda";
    }

    @Override
    protected String missing() {
      return lackingHere();
    }

    @Override
    protected String wire() {
      return WireName.BACKEND;
    }

    @Override
    protected IntStream worldSizes() {
      return Gpus.worlds();
    }

    @Override
    protected int cases() {
      return 12;
    }

    @Override
    protected boolean masks() {
      return false;
    }

    @Override
    protected World world() {
      return processes();
    }
  }

  /** Recorded vectors, two ranks per node. */
  @Nested
  class NodesOfTwo extends VectorKit {
    @Override
    protected String engine() {
      return "cuda";
    }

    @Override
    protected String missing() {
      int ranks = CudaDevice.count();
      return lackingHere().isEmpty() && Gpus.worlds().max().orElse(0) < 4
          ? "4 GPUs are needed, this machine has " + ranks + ""
          : lackingHere();
    }

    @Override
    protected int ranksPerNode() {
      return 2;
    }

    @Override
    protected String wire() {
      return WireName.BACKEND;
    }

    @Override
    protected World world() {
      return processes();
    }
  }

  /** Missed deadlines, one rank per node. */
  @Nested
  class Resets extends ResetKit {
    @Override
    protected String engine() {
      return "cuda";
    }

    @Override
    protected String missing() {
      return lackingHere();
    }

    @Override
    protected IntStream worldSizes() {
      return Gpus.worlds();
    }

    @Override
    protected int ranksPerNode() {
      return 1;
    }

    @Override
    protected String wire() {
      return WireName.BACKEND;
    }

    @Override
    protected World world() {
      return processes();
    }
  }
}
