package org.ep4j.conformance.faults;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.catchThrowableOfType;

import java.lang.System.Logger.Level;
import java.time.Duration;
import java.util.List;
import java.util.function.Consumer;
import org.ep4j.ExpertBuffer;
import org.ep4j.LowLatencyDispatchOptions;
import org.ep4j.Tokens;
import org.ep4j.config.BufferConfig;
import org.ep4j.config.LowLatencyConfig;
import org.ep4j.conformance.world.LogLines;
import org.ep4j.conformance.world.LogLines.Line;
import org.ep4j.error.PeerTimeoutException;
import org.ep4j.group.Group;
import org.ep4j.group.ThreadRanks;
import org.ep4j.routing.Routing;
import org.ep4j.tensor.RowFormat;
import org.ep4j.tensor.Tensor;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

/** What rank 0 says of rank 1, which takes part in no further operation. */
@Timeout(60)
class DepartedRanksTest {
  private static final int RANKS = 2;
  private static final int HIDDEN = 128;
  private static final Routing ROUTING = Routing.of(new long[] {0, 1}, new float[] {1, 1}, RANKS);

  /** How rank 1 ends. */
  private enum End {
    CLOSE_BUFFER,
    LEAVE,
    FAIL
  }

  @Test
  void aRankThatHasLeftIsMaskedWithoutAWarning() {
    assertThat(linesOnce(End.LEAVE))
        .singleElement()
        .satisfies(
            line -> {
              assertThat(line.level()).isEqualTo(Level.INFO);
              assertThat(line.text())
                  .contains("rank 1 has left the group in good order at", "masked from now on")
                  .doesNotContain("dead");
            });
  }

  @Test
  void aRankThatHasClosedItsBufferIsMaskedWithoutAWarning() {
    assertThat(linesOnce(End.CLOSE_BUFFER))
        .singleElement()
        .satisfies(
            line -> {
              assertThat(line.level()).isEqualTo(Level.INFO);
              assertThat(line.text()).contains("rank 1 has closed its buffer: masked from now on");
            });
  }

  @Test
  void aRankThatHasFailedIsMaskedWithAWarningAndItsReason() {
    assertThat(linesOnce(End.FAIL))
        .singleElement()
        .satisfies(
            line -> {
              assertThat(line.level()).isEqualTo(Level.WARNING);
              assertThat(line.text()).contains("rank 1 is dead (failed: expert 17 exploded");
            });
  }

  @Test
  void aRankThatHasLeftEndsAWaitAndIsNotCalledDead() {
    onRankZero(
        config(false),
        End.LEAVE,
        buffer -> {
          PeerTimeoutException timeout =
              catchThrowableOfType(
                  PeerTimeoutException.class, () -> buffer.dispatch(Tokens.of(row()), ROUTING));
          assertThat(timeout.peer()).isEqualTo(1);
          assertThat(timeout.peerDead()).isFalse();
          assertThat(timeout.peerState()).startsWith("has left the group in good order at");
        });
  }

  private static List<Line> linesOnce(End end) {
    try (LogLines log = new LogLines("org.ep4j.host")) {
      onRankZero(
          config(true),
          end,
          buffer -> {
            LowLatencyDispatchOptions options =
                LowLatencyDispatchOptions.builder().format(RowFormat.BF16).build();
            buffer.lowLatencyDispatch(row(), ROUTING, options);
            assertThat(buffer.isMasked(1)).isTrue();
          });
      return log.lines();
    }
  }

  private static void onRankZero(BufferConfig config, End end, Consumer<ExpertBuffer> body) {
    ThreadRanks.run(
        RANKS,
        group -> {
          ExpertBuffer buffer = ExpertBuffer.open(group, config);
          if (group.rank() == 0) {
            awaitEnd(group, end);
            body.accept(buffer);
          } else if (end == End.FAIL) {
            group.fail("expert 17 exploded");
          }
          buffer.close();
          if (end == End.CLOSE_BUFFER) {
            group.barrier(Duration.ofSeconds(30));
          }
        });
  }

  /** The wait for a rank that closes its buffer ends when it does. */
  private static void awaitEnd(Group group, End end) {
    while (end == End.LEAVE && !group.hasLeft(1) || end == End.FAIL && group.isAlive(1)) {
      Thread.onSpinWait();
    }
  }

  private static BufferConfig config(boolean masking) {
    return BufferConfig.builder()
        .engine("host")
        .hidden(HIDDEN)
        .topK(RANKS)
        .experts(RANKS)
        .highThroughput(2)
        .lowLatency(LowLatencyConfig.builder().maxTokens(2).masking(masking).build())
        .build();
  }

  private static Tensor row() {
    return Tensor.ofBf16(new short[HIDDEN], 1, HIDDEN);
  }
}
