package org.ep4j.nvshmem;

import static org.assertj.core.api.Assertions.assertThatThrownBy;

import java.util.List;
import org.ep4j.BufferConfig;
import org.ep4j.ConfigurationMismatchException;
import org.ep4j.ExpertBuffer;
import org.ep4j.conformance.ProcessWorld;
import org.ep4j.conformance.SeveralBuffersJob;
import org.ep4j.group.ThreadRanks;
import org.junit.jupiter.api.Test;

/** Which ranks NVSHMEM serves, and beside what. */
class NvshmemWorldsTest {
  @Test
  void buffersWithSeveralBackendsLiveBesideEachOther() {
    Gpus.require(2);
    new ProcessWorld().run(2, SeveralBuffersJob.class, List.of("nvshmem", "direct", "nvshmem"));
  }

  @Test
  void threadsOfOneProcessAreRefusedOnAllRanks() {
    Gpus.require(1);
    BufferConfig config =
        BufferConfig.builder()
            .hidden(128)
            .topK(1)
            .experts(8)
            .maxTokens(8)
            .engine("cuda")
            .backend("nvshmem")
            .build();
    ThreadRanks.run(
        2,
        group ->
            assertThatThrownBy(() -> ExpertBuffer.open(group, config))
                .isInstanceOf(ConfigurationMismatchException.class)
                .hasMessageContaining("ranks 0 and 1 are in one process")
                .hasMessageContaining("launch"));
  }
}
