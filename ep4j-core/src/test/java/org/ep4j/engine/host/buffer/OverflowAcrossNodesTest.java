package org.ep4j.engine.host.buffer;

import static org.assertj.core.api.Assertions.assertThat;
import static org.ep4j.engine.host.buffer.Tensors.heads;

import java.util.Arrays;
import org.ep4j.Combine;
import org.ep4j.CombineOptions;
import org.ep4j.CombineOrder;
import org.ep4j.Dispatch;
import org.ep4j.DispatchHandle;
import org.ep4j.DispatchOptions;
import org.ep4j.ExpertBuffer;
import org.ep4j.Sizing;
import org.ep4j.Tokens;
import org.ep4j.config.BufferConfig;
import org.ep4j.config.HighThroughputConfig;
import org.ep4j.config.Layout;
import org.ep4j.group.ThreadRanks;
import org.ep4j.routing.Routing;
import org.ep4j.tensor.DType;
import org.ep4j.tensor.Tensor;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

/**
 * Rows that overflow on a rank in the middle of its node, while the other ranks of the node take
 * the rows of the same tokens.
 */
class OverflowAcrossNodesTest {
  private static final int RANKS = 6;
  private static final int HIDDEN = 8;
  private static final int TOKENS = 2;

  /** An expert a rank; every token goes to all, and ranks 1 and 4 take the first row only. */
  @ParameterizedTest
  @CsvSource({
    "FLAT, RANK, true",
    "FLAT, RANK, false",
    "EXPERT_MAJOR, RANK, true",
    "EXPERT_MAJOR, RANK, false",
    "EXPERT_MAJOR, EXPERT, true"
  })
  void theOtherRowsOfTheTokenAreSummed(Layout layout, CombineOrder order, boolean rounding) {
    BufferConfig config =
        BufferConfig.builder()
            .engine("host")
            .hidden(HIDDEN)
            .topK(RANKS)
            .experts(RANKS)
            .ranksPerNode(3)
            .wire("inproc")
            .highThroughput(
                HighThroughputConfig.builder().maxTokens(TOKENS).layouts(layout).build())
            .build();
    ThreadRanks.run(
        RANKS,
        group -> {
          int rank = group.rank();
          try (ExpertBuffer buffer = ExpertBuffer.open(group, config)) {
            boolean small = rank % 3 == 1;
            DispatchOptions options =
                DispatchOptions.builder().sizing(Sizing.atMost(small ? 1 : RANKS * TOKENS)).build();
            Dispatch received = buffer.dispatch(layout, rows(TOKENS, 1), routing(), options);
            assertThat(received.overflow().isPresent()).isEqualTo(small);
            try (DispatchHandle handle = received.handle()) {
              Dispatch again =
                  buffer.dispatch(layout, rows(TOKENS, 2), handle, options.execution());
              assertThat(heads(again.x())).hasSize(small ? 1 : RANKS * TOKENS).containsOnly(2);
              Combine sums =
                  buffer.combine(
                      rows(RANKS * TOKENS, 1 << rank).x(),
                      handle,
                      combining(layout, rank).order(order).partialRounding(rounding).build());
              // All experts for the first token of rank 0, without 1 and 4 for the others.
              float[] expected = {rank == 0 ? 63 : 45, 45};
              assertThat(heads(sums.x())).containsExactly(expected);
              assertThat(weights(sums, layout)).containsExactly(expected);
            }
          }
        });
  }

  private static Tokens rows(int count, float value) {
    float[] values = new float[count * HIDDEN];
    Arrays.fill(values, value);
    return Tokens.of(Tensor.fromFloats(values, DType.BF16, count, HIDDEN));
  }

  private static Routing routing() {
    int[] ids = {5, 3, 4, 0, 1, 2, 1, 0, 2, 4, 3, 5};
    return Routing.of(Tensor.of(ids, TOKENS, RANKS));
  }

  /** Returns one weight a row, 2 to the power of the rank; FLAT: in the place of each choice. */
  private static CombineOptions.Builder combining(Layout layout, int rank) {
    int columns = layout == Layout.FLAT ? RANKS : 1;
    float[] weights = new float[RANKS * TOKENS * columns];
    Arrays.fill(weights, 1 << rank);
    return CombineOptions.builder()
        .topkWeights(
            layout == Layout.FLAT
                ? Tensor.of(weights, (long) RANKS * TOKENS, RANKS)
                : Tensor.of(weights, weights.length));
  }

  /** The returned weight of each token: FLAT that of any choice, else the sum of its choices. */
  private static float[] weights(Combine sums, Layout layout) {
    float[] all = sums.topkWeights().toFloatArray();
    float[] ofTokens = new float[TOKENS];
    for (int i = 0; i < all.length; i++) {
      ofTokens[i / RANKS] = layout == Layout.FLAT ? all[i] : ofTokens[i / RANKS] + all[i];
    }
    return ofTokens;
  }
}
