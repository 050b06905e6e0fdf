package org.ep4j.engine.host.lowlatency;

import static org.assertj.core.api.Assertions.assertThat;
import static org.ep4j.engine.host.buffer.Tensors.bf16;

import java.lang.foreign.ValueLayout;
import java.util.Arrays;
import org.ep4j.ExpertBuffer;
import org.ep4j.LowLatencyCombineOptions;
import org.ep4j.LowLatencyDispatch;
import org.ep4j.LowLatencyDispatchOptions;
import org.ep4j.config.BufferConfig;
import org.ep4j.engine.host.buffer.Tensors;
import org.ep4j.group.ThreadRanks;
import org.ep4j.routing.Routing;
import org.ep4j.tensor.RowFormat;
import org.ep4j.tensor.Tensor;

/**
 * A case small enough to compute by hand: two ranks, four experts (0 and 1 on rank 0, 2 and 3 on
 * rank 1), two choices, at most three tokens, rows of 128 BF16 values that all equal 10 * rank +
 * token + 1.
 *
 * <pre>
 * rank 0: token 0 -> experts 3, 1    token 1 -> 0, none    token 2 -> 2, 3
 * rank 1: token 0 -> experts 0, 1    token 1 -> none, 2
 * </pre>
 *
 * Expert e returns rows of 20 * e + (its input).
 */
final class LowLatencyCase {
  static final int HIDDEN = 128;
  static final int MAX_TOKENS = 3;

  static final LowLatencyDispatchOptions BF16 =
      LowLatencyDispatchOptions.builder().format(RowFormat.BF16).build();
  static final LowLatencyDispatchOptions BF16_HOOK =
      LowLatencyDispatchOptions.builder().format(RowFormat.BF16).returnHook(true).build();
  static final LowLatencyCombineOptions HOOK =
      LowLatencyCombineOptions.builder().returnHook(true).build();
  static final LowLatencyCombineOptions ZERO_COPY =
      LowLatencyCombineOptions.builder().zeroCopy(true).build();

  private static final long[][] IDS = {{3, 1, 0, -1, 2, 3}, {0, 1, -1, 2}};
  private static final float[][] WEIGHTS = {{0.5f, 0.25f, 1f, 9f, 0.75f, 2f}, {3f, 4f, 9f, 5f}};

  private LowLatencyCase() {}

  static BufferConfig.Builder config() {
    return BufferConfig.builder().hidden(HIDDEN).topK(2).experts(4).lowLatency(MAX_TOKENS);
  }

  /** Test body of a rank. */
  interface Body {
    void run(ExpertBuffer buffer, int rank);
  }

  /** Opens a buffer on each rank for {@code body}. */
  static void onBothRanks(Body body) {
    onBothRanks(config().build(), body);
  }

  /** The same with another configuration. */
  static void onBothRanks(BufferConfig config, Body body) {
    ThreadRanks.run(
        2,
        group -> {
          try (ExpertBuffer buffer = ExpertBuffer.open(group, config)) {
            body.run(buffer, group.rank());
          }
        });
  }

  static Routing routing(int rank) {
    return Routing.of(IDS[rank], WEIGHTS[rank], 2);
  }

  /** A routing of one token of {@code rank}. */
  static Routing first(int rank) {
    return Routing.of(new long[] {rank, 3 - rank}, new float[] {1, 1}, 2);
  }

  static Tensor rows(int rank) {
    int tokens = IDS[rank].length / 2;
    short[] values = new short[tokens * HIDDEN];
    for (int t = 0; t < tokens; t++) {
      Arrays.fill(values, t * HIDDEN, (t + 1) * HIDDEN, bf16(10 * rank + t + 1));
    }
    return Tensor.ofBf16(values, tokens, HIDDEN);
  }

  /** Sends {@link #rows} of this rank and receives. */
  static LowLatencyDispatch dispatch(ExpertBuffer buffer) {
    int rank = buffer.rank();
    return buffer.lowLatencyDispatch(rows(rank), routing(rank), BF16);
  }

  /** Sends {@link #rows} of this rank. */
  static LowLatencyDispatch send(ExpertBuffer buffer) {
    int rank = buffer.rank();
    return buffer.lowLatencyDispatch(rows(rank), routing(rank), BF16_HOOK);
  }

  /** An empty y. */
  static Tensor expertRows() {
    short[] values = new short[2 * 2 * MAX_TOKENS * HIDDEN];
    return Tensor.ofBf16(values, 2, 2 * MAX_TOKENS, HIDDEN);
  }

  /** Fills y with the outputs of the experts of {@code rank}; other rows become NaN. */
  static Tensor runExperts(int rank, LowLatencyDispatch d, Tensor y) {
    for (int row = 0; row < 2 * 2 * MAX_TOKENS; row++) {
      int expert = row / (2 * MAX_TOKENS);
      boolean used = row % (2 * MAX_TOKENS) < d.counts().getInt(expert);
      float value = 20 * (2 * rank + expert) + d.x().getFloat((long) row * HIDDEN);
      short bits = used ? bf16(value) : 0x7FC0;
      for (int h = 0; h < HIDDEN; h++) {
        long at = 2L * (row * HIDDEN + h);
        y.segment().set(ValueLayout.JAVA_SHORT_UNALIGNED, at, bits);
      }
    }
    return y;
  }

  /** Runs the experts of this rank and combines their rows; the sums. */
  static Tensor combine(ExpertBuffer buffer, LowLatencyDispatch d) {
    int rank = buffer.rank();
    Tensor y = runExperts(rank, d, expertRows());
    LowLatencyCombineOptions options = LowLatencyCombineOptions.DEFAULT;
    return buffer.lowLatencyCombine(y, routing(rank), d.handle(), options).x();
  }

  /** Expected sums of combine on {@code rank}. */
  static float[] sums(int rank) {
    return rank == 0
        ? new float[] {0.5f * 61 + 0.25f * 21, 2, 0.75f * 43 + 2 * 63}
        : new float[] {3 * 11 + 4 * 31, 5 * 52};
  }

  /** Asserts the sums of {@code rank}, rounded to BF16. */
  static void assertSums(int rank, Tensor actual) {
    float[] rounded = sums(rank);
    for (int i = 0; i < rounded.length; i++) {
      int bits = Float.floatToRawIntBits(rounded[i]);
      rounded[i] = Float.intBitsToFloat((bits + 0x7FFF + (bits >>> 16 & 1)) & 0xFFFF0000);
    }
    assertThat(Tensors.heads(actual)).containsExactly(rounded);
  }

  static long range(int first, int count) {
    return (long) first << 32 | count;
  }
}
