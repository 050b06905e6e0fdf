package org.ep4j.relocation;

import static org.assertj.core.api.Assertions.assertThat;

import java.util.Random;
import java.util.function.IntUnaryOperator;
import org.ep4j.DispatchHandle;
import org.ep4j.DispatchOptions;
import org.ep4j.ExpertBuffer;
import org.ep4j.GroupedDispatch;
import org.ep4j.Tokens;
import org.ep4j.config.BufferConfig;
import org.ep4j.config.HighThroughputConfig;
import org.ep4j.config.Layout;
import org.ep4j.engine.host.buffer.Tensors;
import org.ep4j.routing.ExpertPlacement;
import org.ep4j.routing.ReplicatedPlacement;
import org.ep4j.routing.Routing;
import org.ep4j.tensor.Tensor;

/**
 * Steps of a layer whose results are exact in any order of sums: rows are -1, 0 or 1, and expert e
 * multiplies them by 1 + e, which BF16 holds exactly.
 */
public final class ExactSteps {
  private static final int HIDDEN = 128;
  private static final int TOP_K = 3;
  private static final int TOKENS = 40;

  private static final long SEED = Long.getLong("ep4j.seed", 20261127L);

  private ExactSteps() {}

  /** The configuration of a buffer for these steps. */
  public static BufferConfig config(ExpertPlacement slots) {
    return BufferConfig.builder()
        .hidden(HIDDEN)
        .topK(TOP_K)
        .placement(slots)
        .highThroughput(
            HighThroughputConfig.builder().maxTokens(TOKENS).layouts(Layout.EXPERT_MAJOR).build())
        .build();
  }

  /**
   * Dispatches, computes, combines and checks one step.
   *
   * @param held the logical expert whose weights lie in a local slot
   */
  public static void run(
      ExpertBuffer buffer, ReplicatedPlacement placed, int rank, int step, IntUnaryOperator held) {
    Random random = new Random(SEED + 1000L * step + rank);
    long[] chosen = chosen(random, placed.experts());
    float[] rows = new float[TOKENS * HIDDEN];
    for (int i = 0; i < rows.length; i++) {
      rows[i] = random.nextInt(-1, 2);
    }
    Routing logical = Routing.of(chosen, new float[chosen.length], TOP_K);

    GroupedDispatch dispatch =
        buffer.dispatchGrouped(
            Tokens.of(bf16(rows, TOKENS)),
            placed.physicalRouting(logical, rank),
            DispatchOptions.DEFAULT);
    Tensor sums;
    try (DispatchHandle handle = dispatch.handle()) {
      sums = buffer.combine(computed(dispatch, held), handle).x();
    }

    float[] expected = new float[rows.length];
    for (int i = 0; i < rows.length; i++) {
      for (int k = 0; k < TOP_K; k++) {
        long expert = chosen[i / HIDDEN * TOP_K + k];
        expected[i] += expert < 0 ? 0 : rows[i] * (1 + expert);
      }
    }
    assertThat(sums.toFloatArray()).as("rank %d, step %d", rank, step).containsExactly(expected);
  }

  /** Distinct experts for each token, -1 in place of repetitions. */
  private static long[] chosen(Random random, int experts) {
    long[] chosen = random.longs(TOKENS * TOP_K, 0, experts).toArray();
    for (int i = 0; i < chosen.length; i++) {
      boolean again = false;
      for (int k = i / TOP_K * TOP_K; k < i; k++) {
        again |= chosen[k] == chosen[i];
      }
      chosen[i] = again ? -1 : chosen[i];
    }
    return chosen;
  }

  private static Tensor computed(GroupedDispatch dispatch, IntUnaryOperator held) {
    float[] rows = dispatch.x().toFloatArray();
    long[] offsets = Tensors.longs(dispatch.expertOffsets());
    for (int local = 0; local < offsets.length - 1; local++) {
      int expert = held.applyAsInt(local);
      for (long i = offsets[local] * HIDDEN; i < offsets[local + 1] * HIDDEN; i++) {
        rows[(int) i] *= 1 + expert;
      }
    }
    return bf16(rows, rows.length / HIDDEN);
  }

  private static Tensor bf16(float[] values, int rows) {
    short[] bits = new short[values.length];
    for (int i = 0; i < bits.length; i++) {
      bits[i] = Tensors.bf16(values[i]);
    }
    return Tensor.ofBf16(bits, rows, HIDDEN);
  }
}
