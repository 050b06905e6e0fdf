package org.ep4j.nvshmem;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;
import static org.junit.jupiter.api.Assumptions.assumeTrue;

import java.util.List;
import java.util.stream.Stream;
import org.ep4j.ExpertBuffer;
import org.ep4j.config.BufferConfig;
import org.ep4j.conformance.SeveralBuffersJob;
import org.ep4j.conformance.world.ProcessWorld;
import org.ep4j.conformance.world.RankJob;
import org.ep4j.cuda.backend.RankLocation;
import org.ep4j.cuda.driver.CudaDevice;
import org.ep4j.error.ConfigurationMismatchException;
import org.ep4j.error.ErrorCode;
import org.ep4j.group.Group;
import org.ep4j.group.ThreadRanks;
import org.junit.jupiter.api.Test;

/** The worlds that NVSHMEM serves, and other backends in the same process. */
class NvshmemWorldsTest {
  @Test
  void buffersWithSeveralBackendsLiveBesideEachOther() {
    Gpus.require(2);
    new ProcessWorld().run(2, SeveralBuffersJob.class, List.of("nvshmem", "direct", "nvshmem"));
  }

  @Test
  void threadsOfOneProcessAreRefusedOnAllRanks() {
    Gpus.require(1);
    ThreadRanks.run(
        2,
        group ->
            assertThatThrownBy(() -> ExpertBuffer.open(group, config(2)))
                .isInstanceOf(ConfigurationMismatchException.class)
                .hasMessageContaining("ranks 0 and 1 are in one process")
                .hasMessageStartingWith(ErrorCode.BACKEND_REFUSES_RANKS.id()));
  }

  @Test
  void processesThatShareGpusUnevenlyAreRefusedOnAllRanks() {
    Gpus.require(2);
    int gpus = CudaDevice.count();
    assumeTrue(gpus > 1, "on one GPU all ranks are even");
    new ProcessWorld().run(gpus + 1, Refused.class, List.of());
  }

  /** More processes than GPUs, so that the first GPU has one rank more. */
  public static final class Refused implements RankJob {
    /** Used by reflection. */
    public Refused() {}

    @Override
    public void run(Group group, List<String> arguments) {
      assertThatThrownBy(() -> ExpertBuffer.open(group, config(group.size())))
          .isInstanceOf(ConfigurationMismatchException.class)
          .hasMessageContaining("the GPU of rank 0 has 2 of the ranks, that of rank 1 has 1")
          .hasMessageContaining("backend 'direct'");
    }
  }

  private static BufferConfig config(int ranks) {
    return BufferConfig.builder()
        .hidden(128)
        .topK(1)
        .experts(4 * ranks)
        .highThroughput(8)
        .engine("cuda")
        .backend("nvshmem")
        .build();
  }

  @Test
  void gpusWithUnequalNumbersOfRanksAreRefusedWithTheirRanks() {
    assertThat(objection("a", "b", "a"))
        .startsWith("the GPU of rank 0 has 2 of the ranks, that of rank 11 has 1, but NVSHMEM");
    assertThat(objection("a", "b", "c", "c"))
        .startsWith("the GPU of rank 0 has 1 of the ranks, that of rank 12 has 2, but NVSHMEM");
    assertThat(objection("a", "a", "a")).isEmpty();
    assertThat(objection("a", "b", "b", "a")).isEmpty();
    assertThat(objection("a", "b", "c")).isEmpty();
  }

  /** Of ranks on these devices, numbered 0, 11, 12 ... as after earlier losses. */
  private static String objection(String... devices) {
    return NvshmemBackendProvider.objection(
        Stream.of(devices).map(device -> new RankLocation(device, "process", "3.4.5", "")).toList(),
        index -> index == 0 ? 0 : 10 + index);
  }
}
