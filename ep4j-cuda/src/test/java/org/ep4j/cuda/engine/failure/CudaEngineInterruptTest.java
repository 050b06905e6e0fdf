package org.ep4j.cuda.engine.failure;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.catchThrowableOfType;

import java.time.Duration;
import java.util.Arrays;
import java.util.List;
import java.util.concurrent.locks.LockSupport;
import org.ep4j.ExpertBuffer;
import org.ep4j.LowLatencyDispatchOptions;
import org.ep4j.config.BufferConfig;
import org.ep4j.config.LowLatencyConfig;
import org.ep4j.conformance.world.ProcessWorld;
import org.ep4j.conformance.world.ThreadWorld;
import org.ep4j.cuda.driver.Gpu;
import org.ep4j.error.Ep4jException;
import org.ep4j.error.ErrorCode;
import org.ep4j.group.ThreadRanks;
import org.ep4j.routing.Routing;
import org.ep4j.tensor.RowFormat;
import org.ep4j.tensor.Tensor;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

/** The thread of a rank is interrupted while the others wait: they learn it at once. */
@Timeout(300)
class CudaEngineInterruptTest {
  private static final int HIDDEN = 512;
  private static final Duration LIMIT = Duration.ofMinutes(1);

  /** Longer than the test may take. */
  private static final Duration LONG = Duration.ofMinutes(10);

  @ParameterizedTest
  @CsvSource({"0, auto", "1, staged", "1, tcp", "2, tcp"})
  void threadsThatWaitLearnIt(int ranksPerNode, String wire) {
    Gpu.require(1);
    new ThreadWorld()
        .run(
            InterruptedRankJob.RANKS,
            InterruptedRankJob.class,
            List.of("cuda", String.valueOf(ranksPerNode), wire));
  }

  @ParameterizedTest
  @CsvSource({"0, auto", "1, staged", "1, tcp"})
  void processesThatWaitLearnIt(int ranksPerNode, String wire) {
    Gpu.require(1);
    new ProcessWorld()
        .run(
            InterruptedRankJob.RANKS,
            InterruptedRankJob.class,
            List.of("cuda", String.valueOf(ranksPerNode), wire));
  }

  /** The others skip the rank at once and continue; after a reset it takes part again. */
  @Test
  void withMasksTheOthersContinueAtOnce() {
    Gpu.require(1);
    int ranks = InterruptedRankJob.RANKS;
    BufferConfig config =
        BufferConfig.builder()
            .engine("cuda")
            .hidden(HIDDEN)
            .topK(ranks)
            .experts(ranks)
            .lowLatency(LowLatencyConfig.builder().maxTokens(1).masking(true).build())
            .timeout(LONG)
            .build();
    ThreadRanks.run(
        ranks,
        LIMIT,
        group -> {
          try (ExpertBuffer buffer = ExpertBuffer.open(group, config)) {
            assertThat(operate(buffer)).isEqualTo(ranks);
            if (group.rank() == 0) {
              interruptSoon();
              Ep4jException error =
                  catchThrowableOfType(Ep4jException.class, () -> operate(buffer));
              assertThat(Thread.interrupted()).isTrue();
              assertThat(error.errorCode()).isEqualTo(ErrorCode.OPERATION_INTERRUPTED);
              assertThat(buffer.isMasked(1)).isFalse();
              group.barrier(LIMIT);
            } else {
              group.barrier(LIMIT);
              // Rank 0 had sent its rows of the first.
              assertThat(operate(buffer)).isEqualTo(ranks);
              assertThat(operate(buffer)).isEqualTo(ranks - 1);
              assertThat(buffer.isMasked(0)).isTrue();
              assertThat(operate(buffer)).isEqualTo(ranks - 1);
            }
            group.barrier(LIMIT);
            buffer.reset();
            buffer.cleanMask();
            group.barrier(LIMIT);
            assertThat(operate(buffer)).isEqualTo(ranks);
          }
        });
  }

  private static void interruptSoon() {
    Thread waiter = Thread.currentThread();
    Thread.ofVirtual()
        .start(
            () -> {
              LockSupport.parkNanos(Duration.ofMillis(100).toNanos());
              waiter.interrupt();
            });
  }

  /** Sends a token to each rank; returns the number of tokens received. */
  private static int operate(ExpertBuffer buffer) {
    int ranks = buffer.worldSize();
    short[] row = new short[HIDDEN];
    Arrays.fill(row, (short) 0x3f80);
    long[] ids = new long[ranks];
    Arrays.setAll(ids, i -> i);
    return buffer
        .lowLatencyDispatch(
            Tensor.ofBf16(row, 1, HIDDEN),
            Routing.of(Tensor.of(ids, 1, ranks)),
            LowLatencyDispatchOptions.builder().format(RowFormat.BF16).build())
        .counts()
        .toIntArray()[0];
  }
}
