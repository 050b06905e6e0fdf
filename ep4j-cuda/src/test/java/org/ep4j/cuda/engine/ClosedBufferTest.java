package org.ep4j.cuda.engine;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.catchThrowableOfType;

import java.time.Duration;
import java.util.function.Consumer;
import org.ep4j.ExpertBuffer;
import org.ep4j.LowLatencyDispatchOptions;
import org.ep4j.config.BufferConfig;
import org.ep4j.config.LowLatencyConfig;
import org.ep4j.cuda.driver.CudaDevice;
import org.ep4j.cuda.driver.Gpu;
import org.ep4j.error.PeerTimeoutException;
import org.ep4j.group.ThreadRanks;
import org.ep4j.tensor.RowFormat;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

/** A rank closes its buffer instead of calling an operation: the others learn it at once. */
@Timeout(120)
class ClosedBufferTest {
  private static final int RANKS = 3;
  private static final int LAST = RANKS - 1;
  private static final int TOKENS = 24;

  /** Longer than the test may take. */
  private static final Duration LONG = Duration.ofMinutes(10);

  private static final LowLatencyDispatchOptions BF16 =
      LowLatencyDispatchOptions.builder().format(RowFormat.BF16).build();

  /** As many experts as a batch chooses from, and one more: a multiple of the ranks. */
  private static BufferConfig.Builder config() {
    return Batch.config(TOKENS).experts(Batch.EXPERTS + 1).timeout(LONG);
  }

  /** The ranks that have not closed call; no rank leaves the group before all have ended. */
  @SuppressWarnings("try") // closes the buffer before its end
  private static void othersCall(BufferConfig config, boolean lowLatency, Consumer<Runnable> call) {
    Gpu.require(1);
    ThreadRanks.run(
        RANKS,
        group -> {
          try (CudaDevice device = CudaDevice.open(group.rank() % CudaDevice.count());
              ExpertBuffer buffer = ExpertBuffer.open(group, config);
              Batch batch = new Batch(device, TOKENS)) {
            batch.fill(group.rank(), 1);
            Runnable dispatch = () -> dispatch(buffer, batch, lowLatency);
            dispatch.run();
            if (group.rank() == LAST) {
              buffer.close();
            } else {
              call.accept(dispatch);
            }
            // To free the batch waits for kernels of the GPU, which may wait for this rank.
            group.barrier(LONG);
          }
        });
  }

  private static void dispatch(ExpertBuffer buffer, Batch batch, boolean lowLatency) {
    if (lowLatency) {
      buffer.lowLatencyDispatch(batch.x, batch.routing, BF16);
    } else {
      buffer.dispatch(batch.x, batch.routing);
    }
  }

  @ParameterizedTest
  @CsvSource({
    "3, auto, false",
    "3, auto, true",
    "2, staged, false",
    "2, staged, true",
    "2, tcp, false",
    "2, tcp, true",
    "1, tcp, false",
    "1, tcp, true"
  })
  void theOthersLearnItAtOnce(int ranksPerNode, String wire, boolean lowLatency) {
    BufferConfig config = config().lowLatency(TOKENS).ranksPerNode(ranksPerNode).wire(wire).build();
    othersCall(
        config,
        lowLatency,
        dispatch -> {
          PeerTimeoutException timeout =
              catchThrowableOfType(PeerTimeoutException.class, dispatch::run);
          assertThat(timeout).hasMessageContaining("rank 2 has closed its buffer");
          assertThat(timeout.peer()).isEqualTo(LAST);
          assertThat(timeout.peerDead()).isFalse();
        });
  }

  @Test
  void withMasksTheOthersContinueAtOnce() {
    LowLatencyConfig masking = LowLatencyConfig.builder().maxTokens(TOKENS).masking(true).build();
    othersCall(
        config().lowLatency(masking).build(),
        true,
        dispatch -> {
          dispatch.run();
          dispatch.run();
        });
  }
}
