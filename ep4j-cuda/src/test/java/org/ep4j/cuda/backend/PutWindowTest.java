package org.ep4j.cuda.backend;

import static org.assertj.core.api.Assertions.assertThat;

import java.time.Duration;
import org.ep4j.group.ThreadRanks;
import org.junit.jupiter.api.Test;

/** Exchange between ranks about a library before their kernels use it. */
class PutWindowTest {
  /** All ranks report the rank without the library, and use the same transport. */
  @Test
  void missingFeatureOfOneRankIsReportedOnAll() {
    ThreadRanks.run(
        3,
        group -> {
          String reason = group.rank() == 1 ? "no nccl_device.h: install it" : "";
          assertThat(PutWindow.obstacle(group, Duration.ofSeconds(10), reason))
              .isEqualTo("Rank 1: no nccl_device.h: install it");
          assertThat(PutWindow.obstacle(group, Duration.ofSeconds(10), "")).isEmpty();
        });
  }
}
