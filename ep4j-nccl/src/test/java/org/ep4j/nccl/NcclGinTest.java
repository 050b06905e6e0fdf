package org.ep4j.nccl;

import static org.junit.jupiter.api.Assumptions.assumeTrue;

import java.nio.file.Path;
import java.util.List;
import java.util.Map;
import java.util.stream.IntStream;
import org.ep4j.config.WireName;
import org.ep4j.conformance.EngineKit;
import org.ep4j.conformance.ResetKit;
import org.ep4j.conformance.world.World;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Nested;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/**
 * NCCL's GIN without a network adapter: the device functions, queues and proxy threads are NCCL's
 * own, and drive a {@link SoftwareAdapter}.
 */
class NcclGinTest {
  /**
   * Lanes in several communicators, as versions need whose communicators have four contexts. Each
   * communicator of each rank has streams, which must not share a queue with a kernel.
   */
  private static final Map<String, String> SEVERAL =
      Map.of("EP4J_NCCL_GIN_COMMS", "3", "CUDA_DEVICE_MAX_CONNECTIONS", "32");

  @TempDir private static Path directory;

  @BeforeAll
  static void choose() {
    Gpus.choose();
  }

  @AfterAll
  static void chooseNot() {
    Gpus.chooseNot();
  }

  @Test
  void kernelsPutByGin() {
    assumeTrue(SoftwareAdapter.lacking().isEmpty(), SoftwareAdapter::lacking);
    new SoftwareAdapter(directory).run(2, NcclPutTest.Exchange.class, List.of("1", "GIN of NCCL"));
  }

  @Test
  void kernelsPutByGinOfSeveralCommunicators() {
    assumeTrue(SoftwareAdapter.lacking().isEmpty(), SoftwareAdapter::lacking);
    new SoftwareAdapter(directory, SEVERAL)
        .run(2, NcclPutTest.Exchange.class, List.of("1", "in 3 communicators"));
  }

  /** The CUDA engine with puts by GIN of several communicators: random cases. */
  @Nested
  class EngineOfSeveralCommunicators extends Engine {
    @Override
    protected World world() {
      return new SoftwareAdapter(directory, SEVERAL);
    }
  }

  /** Missed deadlines, with puts by GIN of several communicators. */
  @Nested
  class ResetsOfSeveralCommunicators extends Resets {
    @Override
    protected World world() {
      return new SoftwareAdapter(directory, SEVERAL);
    }
  }

  /** The CUDA engine between nodes with puts by GIN: random cases. */
  @Nested
  class Engine extends EngineKit {
    @Override
    protected String engine() {
      return "cuda";
    }

    @Override
    protected String missing() {
      return SoftwareAdapter.lacking();
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
      return new SoftwareAdapter(directory);
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
      return SoftwareAdapter.lacking();
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
      return new SoftwareAdapter(directory);
    }
  }
}
