package org.ep4j.engine.host.buffer;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;
import static org.ep4j.engine.host.buffer.Tensors.bf16;
import static org.ep4j.engine.host.buffer.Tensors.heads;
import static org.ep4j.engine.host.buffer.Tensors.ints;
import static org.ep4j.engine.host.buffer.Tensors.longs;

import java.util.Arrays;
import org.assertj.core.api.ThrowableAssert.ThrowingCallable;
import org.ep4j.DispatchHandle;
import org.ep4j.DispatchOptions;
import org.ep4j.ExpertBuffer;
import org.ep4j.GroupedDispatch;
import org.ep4j.LowLatencyCombineOptions;
import org.ep4j.LowLatencyDispatch;
import org.ep4j.LowLatencyDispatchOptions;
import org.ep4j.Tokens;
import org.ep4j.config.BufferConfig;
import org.ep4j.config.HighThroughputConfig;
import org.ep4j.config.Layout;
import org.ep4j.error.ConfigurationMismatchException;
import org.ep4j.error.ErrorCode;
import org.ep4j.error.InvalidArgumentException;
import org.ep4j.group.RankFailedException;
import org.ep4j.group.ThreadRanks;
import org.ep4j.routing.ExpertPlacement;
import org.ep4j.routing.Routing;
import org.ep4j.tensor.RowFormat;
import org.ep4j.tensor.Tensor;
import org.junit.jupiter.api.Test;

/**
 * Calls of fewer experts than the buffer has: two ranks, of which rank 0 owns experts 1, 3 and 5 of
 * the buffer and rank 1 experts 0, 2, 4 and 6. A call of two experts has expert 0 on rank 0 and
 * expert 1 on rank 1.
 */
class FewerExpertsTest {
  private static final int HIDDEN = 128;
  private static final int[] RANK_OF = {1, 0, 1, 0, 1, 0, 1};

  /** A body of one rank. */
  private interface Body {
    void run(ExpertBuffer buffer, int rank);
  }

  private static void onBothRanks(Body body) {
    BufferConfig config =
        BufferConfig.builder()
            .hidden(HIDDEN)
            .topK(2)
            .placement(ExpertPlacement.table(RANK_OF, 2))
            .highThroughput(
                HighThroughputConfig.builder()
                    .maxTokens(4)
                    .layouts(Layout.FLAT, Layout.EXPERT_MAJOR)
                    .build())
            .lowLatency(4)
            .build();
    ThreadRanks.run(
        2,
        group -> {
          try (ExpertBuffer buffer = ExpertBuffer.open(group, config)) {
            body.run(buffer, group.rank());
          }
        });
  }

  /** One row of {@code 1 + rank}. */
  private static Tensor row(int rank) {
    short[] values = new short[HIDDEN];
    Arrays.fill(values, bf16(1 + rank));
    return Tensor.ofBf16(values, 1, HIDDEN);
  }

  private static Routing routing(long... ids) {
    float[] weights = new float[ids.length];
    Arrays.fill(weights, 1);
    return Routing.of(ids, weights, ids.length);
  }

  private static DispatchOptions experts(int number) {
    return DispatchOptions.builder().experts(number).build();
  }

  private static LowLatencyDispatchOptions lowLatency(int experts) {
    return LowLatencyDispatchOptions.builder().format(RowFormat.BF16).experts(experts).build();
  }

  @Test
  void aCallNumbersItsExpertsInBlocks() {
    onBothRanks(
        (buffer, rank) -> {
          // Expert 1 of 4 is the second of rank 0, expert 3 the second of rank 1.
          Routing routing = rank == 0 ? routing(1, 3) : routing(3, 2);
          GroupedDispatch d = buffer.dispatchGrouped(Tokens.of(row(rank)), routing, experts(4));
          assertThat(ints(d.counts()))
              .containsExactly(rank == 0 ? new int[] {0, 1} : new int[] {1, 2});
          assertThat(longs(d.expertOffsets()))
              .containsExactly(rank == 0 ? new long[] {0, 0, 1} : new long[] {0, 1, 3});
          assertThat(ints(buffer.dispatchLayout(routing, 4).tokensPerExpert()))
              .containsExactly(rank == 0 ? new int[] {0, 1, 0, 1} : new int[] {0, 0, 1, 1});
          try (DispatchHandle handle = d.handle()) {
            Tensor sums = buffer.combine(d.x(), handle).x();
            assertThat(heads(sums)).containsExactly(2 * (1 + rank));
          }
          // The next call has the experts of the buffer again.
          GroupedDispatch all =
              buffer.dispatchGrouped(Tokens.of(row(rank)), routing(6, 5), DispatchOptions.DEFAULT);
          assertThat(ints(all.counts()))
              .containsExactly(rank == 0 ? new int[] {0, 0, 2} : new int[] {0, 0, 0, 2});
          all.handle().close();
        });
  }

  @Test
  void aLowLatencyCallHasTheGroupsOfItsExperts() {
    onBothRanks(
        (buffer, rank) -> {
          LowLatencyDispatch d = buffer.lowLatencyDispatch(row(rank), routing(0, 1), lowLatency(2));
          assertThat(d.x().shape()).containsExactly(1, 8, HIDDEN);
          assertThat(ints(d.counts())).containsExactly(2);
          assertThat(longs(d.handle().layoutRange())).containsExactly(1, 1L << 32 | 1);
          Tensor y = buffer.lowLatencyCombineBuffer(d.handle());
          assertThat(y.shape()).containsExactly(1, 8, HIDDEN);
          y.copyFrom(d.x().segment());
          LowLatencyCombineOptions zeroCopy =
              LowLatencyCombineOptions.builder().zeroCopy(true).build();
          Tensor sums = buffer.lowLatencyCombine(y, routing(0, 1), d.handle(), zeroCopy).x();
          assertThat(heads(sums)).containsExactly(2 * (1 + rank));
          assertThatThrownBy(
                  () ->
                      buffer.lowLatencyCombine(
                          d.x(), routing(0, 0), d.handle(), LowLatencyCombineOptions.DEFAULT))
              .hasMessageContaining("topkIdx[0, 1] = 0")
              .hasMessageContaining("1");
        });
  }

  @Test
  void numbersThatABufferCannotServeAreRefused() {
    onBothRanks(
        (buffer, rank) -> {
          for (int number : new int[] {3, 8, 14}) {
            refused(
                () -> buffer.dispatch(Tokens.of(row(rank)), routing(0, 1), experts(number)),
                ErrorCode.CALL_EXPERTS,
                "experts = "
                    + number
                    + "; it must be 7 (BufferConfig.experts), or a multiple of 2");
            refused(
                () -> buffer.lowLatencyDispatch(row(rank), routing(0, 1), lowLatency(number)),
                ErrorCode.CALL_EXPERTS,
                "experts = " + number);
            refused(
                () -> buffer.dispatchLayout(routing(0, 1), number),
                ErrorCode.CALL_EXPERTS,
                "experts = " + number);
          }
          refused(() -> experts(-2), ErrorCode.CALL_EXPERTS, "experts = -2");
          refused(() -> lowLatency(-2), ErrorCode.CALL_EXPERTS, "experts = -2");
        });
  }

  @Test
  void idsBehindTheExpertsOfACallAreRefused() {
    onBothRanks(
        (buffer, rank) -> {
          refused(
              () -> buffer.dispatchLayout(routing(0, 2), 2),
              ErrorCode.NO_SUCH_EXPERT,
              "topkIdx[0, 1] = 2; it must be -1..1 (2 experts)");
          refused(
              () -> buffer.lowLatencyDispatch(row(rank), routing(0, 2), lowLatency(2)),
              ErrorCode.NO_SUCH_EXPERT,
              "topkIdx[0, 1] = 2; it must be -1..1 (2 experts)");
          refused(
              () -> buffer.dispatchLayout(routing(3, 3), 4),
              ErrorCode.EXPERT_TWICE,
              "topkIdx[0, 1] = 3");
        });
  }

  @Test
  void ranksWithCallsOfDifferentExpertsGetAnError() {
    differ(
        (buffer, rank) ->
            buffer.dispatch(Tokens.of(row(rank)), routing(0, 1), experts(2 + 2 * rank)),
        "differs in the experts of the call");
    differ(
        (buffer, rank) ->
            buffer.lowLatencyDispatch(row(rank), routing(0, 1), lowLatency(2 + 2 * rank)),
        "dispatch with 2 experts a rank of BF16");
  }

  private static void differ(Body body, String said) {
    assertThatThrownBy(() -> onBothRanks(body))
        .isInstanceOf(RankFailedException.class)
        .rootCause()
        .isInstanceOf(ConfigurationMismatchException.class)
        .hasMessageContaining(said);
  }

  private static void refused(ThrowingCallable call, ErrorCode code, String said) {
    assertThatThrownBy(call)
        .isInstanceOf(InvalidArgumentException.class)
        .hasMessageStartingWith(code.id())
        .hasMessageContaining(said);
  }
}
