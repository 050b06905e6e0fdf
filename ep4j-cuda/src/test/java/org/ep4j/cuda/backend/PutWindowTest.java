package org.ep4j.cuda.backend;

import static org.assertj.core.api.Assertions.assertThat;

import java.time.Duration;
import org.ep4j.group.ThreadRanks;
import org.junit.jupiter.api.Test;

/** What ranks tell each other of a library before their kernels use it. */
class PutWindowTest {
  /** A rank that lacks what the others have is named on all of them, and they go one way. */
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
