package org.ep4j.engine.host.buffer;

import static org.assertj.core.api.Assertions.assertThat;
import static org.ep4j.engine.host.buffer.Tensors.longs;

import java.util.Arrays;
import java.util.Random;
import org.ep4j.BufferConfig;
import org.ep4j.DispatchHandle;
import org.ep4j.DispatchOptions;
import org.ep4j.ExpertBuffer;
import org.ep4j.ExpertPlacement;
import org.ep4j.GroupedDispatch;
import org.ep4j.HighThroughputConfig;
import org.ep4j.Layout;
import org.ep4j.ReplicatedPlacement;
import org.ep4j.Routing;
import org.ep4j.Tensor;
import org.ep4j.Tokens;
import org.ep4j.group.ThreadRanks;
import org.junit.jupiter.api.Test;

/**
 * Replicas compute what their expert computes. Rows are small whole numbers and expert e multiplies
 * them by 1 + e, so that sums are exact in any order: results must agree bit for bit.
 */
class ReplicatedExpertsTest {
  private static final long SEED = Long.getLong("ep4j.seed", 20261127L);
  private static final int RANKS = 4;
  private static final int EXPERTS = 8;
  private static final int REPLICAS = 4;
  private static final int TOP_K = 3;
  private static final int TOKENS = 40;
  private static final int HIDDEN = 128;

  @Test
  void oneBufferServesEveryBalancedPlacementWithTheSameResults() {
    BufferConfig config =
        BufferConfig.builder()
            .hidden(HIDDEN)
            .topK(TOP_K)
            .placement(ExpertPlacement.blocks(EXPERTS + REPLICAS, RANKS))
            .highThroughput(
                HighThroughputConfig.builder()
                    .maxTokens(TOKENS)
                    .layouts(Layout.EXPERT_MAJOR)
                    .build())
            .build();
    ThreadRanks.run(
        RANKS,
        group -> {
          try (ExpertBuffer buffer = ExpertBuffer.open(group, config)) {
            for (int step = 0; step < 4; step++) {
              check(buffer, group.rank(), step);
            }
          }
        });
  }

  private static void check(ExpertBuffer buffer, int rank, int step) {
    long[] load = new long[EXPERTS];
    Arrays.setAll(load, e -> 1 + 100 / (1 + Math.floorMod(e - 3 * step, EXPERTS)));
    ReplicatedPlacement placed = ExpertPlacement.balance(load, RANKS, REPLICAS);
    Random random = new Random(SEED + 100 * step + rank);
    long[] chosen = random.longs(TOKENS * TOP_K, 0, EXPERTS).toArray();
    for (int i = 0; i < chosen.length; i++) {
      boolean again = false;
      for (int k = i / TOP_K * TOP_K; k < i; k++) {
        again |= chosen[k] == chosen[i];
      }
      chosen[i] = again ? -1 : chosen[i];
    }
    float[] rows = new float[TOKENS * HIDDEN];
    for (int i = 0; i < rows.length; i++) {
      rows[i] = random.nextInt(-5, 6);
    }
    Routing logical = Routing.of(chosen, new float[chosen.length], TOP_K);

    GroupedDispatch dispatch =
        buffer.dispatchGrouped(
            Tokens.of(bf16(rows, TOKENS)),
            placed.physicalRouting(logical, rank),
            DispatchOptions.DEFAULT);
    Tensor sums;
    try (DispatchHandle handle = dispatch.handle()) {
      sums = buffer.combine(computed(dispatch, placed, rank), handle).x();
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

  /** What the physical experts of a rank make of their rows. */
  private static Tensor computed(GroupedDispatch dispatch, ReplicatedPlacement placed, int rank) {
    float[] rows = dispatch.x().toFloatArray();
    long[] offsets = longs(dispatch.expertOffsets());
    for (int local = 0; local < offsets.length - 1; local++) {
      int expert = placed.logicalOf(placed.placement().expertAt(rank, local));
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
