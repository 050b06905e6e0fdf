package org.ep4j.cuda.engine.failure;

import static org.assertj.core.api.Assertions.assertThat;

import java.time.Duration;
import org.ep4j.config.BufferConfig;
import org.ep4j.config.LowLatencyConfig;
import org.ep4j.routing.ExpertPlacement;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

class CompletionTest {
  private static final Duration TIMEOUT = Duration.ofSeconds(30);

  /** With masking a kernel that has waited for one timeout may wait for another one at its end. */
  @ParameterizedTest
  @CsvSource({"false, 1", "true, 2"})
  void theHostWaitsLongerThanTheWaitsOfAKernel(boolean masking, int timeouts) {
    BufferConfig config =
        BufferConfig.builder()
            .hidden(128)
            .topK(1)
            .placement(ExpertPlacement.blocks(2, 2))
            .lowLatency(LowLatencyConfig.builder().maxTokens(1).masking(masking).build())
            .timeout(TIMEOUT)
            .build();
    assertThat(Completion.hostTimeout(config)).isGreaterThan(TIMEOUT.multipliedBy(timeouts));
    assertThat(Completion.hostTimeout(config)).isLessThan(TIMEOUT.multipliedBy(timeouts + 1));
  }
}
