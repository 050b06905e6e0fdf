package org.ep4j;

/**
 * Order of the rows that a low-latency dispatch delivers and that its combine accepts. R ranks, at
 * most M tokens per rank, L local experts, H elements per row, K choices per token.
 */
public enum RowLayout {
  /**
   * One row per (token, local expert), [L, R*M, H]: one group per local expert, ordered by (source
   * rank, source token), without gaps. Combine accepts rows in this order, applies the weights and
   * sums.
   */
  EXPERT_MAJOR,

  /**
   * One row per token, independent of the number of its local experts, [R, M, H]: one group per
   * source rank, ordered by source token, without gaps. The choices of each row and their weights
   * arrive with it ({@link LowLatencyDispatch#topkIdx()}, {@link
   * LowLatencyDispatch#topkWeights()}), for callers that group by experts themselves. All ranks use
   * the same K, and either all or no ranks pass weights.
   *
   * <p>Combine accepts one row per token, BF16 [R, M, H]: the weighted sum over the local experts,
   * computed by the caller. Combine adds the rows of a token in rank order, in FP32 from 0, and
   * rounds once to BF16.
   */
  RANK_MAJOR
}
