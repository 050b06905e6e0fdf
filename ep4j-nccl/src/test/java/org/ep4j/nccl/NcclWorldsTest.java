package org.ep4j.nccl;

import static org.assertj.core.api.Assertions.assertThatThrownBy;
import static org.junit.jupiter.api.Assumptions.assumeFalse;

import java.util.List;
import org.ep4j.ExpertBuffer;
import org.ep4j.config.BufferConfig;
import org.ep4j.conformance.SeveralBuffersJob;
import org.ep4j.conformance.world.ProcessWorld;
import org.ep4j.conformance.world.ThreadWorld;
import org.ep4j.cuda.driver.CudaDevice;
import org.ep4j.error.ConfigurationMismatchException;
import org.ep4j.error.ErrorCode;
import org.ep4j.group.ThreadRanks;
import org.junit.jupiter.api.Test;

/** The worlds that NCCL serves, and other backends in the same process. */
class NcclWorldsTest {
  @Test
  void buffersWithSeveralBackendsLiveBesideEachOther() {
    Gpus.require(2);
    List<String> backends = List.of("nccl", "direct", "nccl");
    new ThreadWorld().run(2, SeveralBuffersJob.class, backends);
    new ProcessWorld().run(2, SeveralBuffersJob.class, backends);
  }

  @Test
  void oneRankAloneIsServed() {
    Gpus.require(1);
    new ThreadWorld().run(1, SeveralBuffersJob.class, List.of("nccl"));
  }

  @Test
  void ranksThatShareAGpuAreRefusedOnAllOfThem() {
    Gpus.require(1);
    assumeFalse(SharedGpus.allowed(), "ranks may share a GPU here");
    ThreadRanks.run(
        CudaDevice.count() + 1,
        group ->
            assertThatThrownBy(() -> ExpertBuffer.open(group, config()))
                .isInstanceOf(ConfigurationMismatchException.class)
                .hasMessageStartingWith(ErrorCode.BACKEND_REFUSES_RANKS.id())
                .hasMessageContaining("ranks 0 and " + CudaDevice.count() + " share a GPU"));
  }

  @Test
  void readmissionIsRefused() {
    Gpus.require(2);
    ThreadRanks.run(
        2,
        group -> {
          try (ExpertBuffer buffer = ExpertBuffer.open(group, config())) {
            assertThatThrownBy(buffer::readmit)
                .isInstanceOf(IllegalStateException.class)
                .hasMessageStartingWith(ErrorCode.READMISSION_UNSUPPORTED.id())
                .hasMessageContaining("backend 'nccl' cannot readmit ranks");
            buffer.barrier();
          }
        });
  }

  private static BufferConfig config() {
    return BufferConfig.builder()
        .hidden(128)
        .topK(1)
        .experts(64)
        .highThroughput(8)
        .engine("cuda")
        .backend("nccl")
        .build();
  }
}
