package org.ep4j;

/**
 * Where the rows lie that a low-latency dispatch delivers, and what its combine takes. R ranks, at
 * most M tokens a rank, L local experts, H elements a row, K choices a token.
 */
public enum RowLayout {
  /**
   * One row per (token, local expert), [L, R*M, H]: a group for each local expert, in a group
   * ordered by (source rank, source token), without gaps. Combine takes such rows back, weighs and
   * sums them.
   */
  EXPERT_MAJOR,

  /**
   * One row per token, however many local experts have been chosen for it, [R, M, H]: a group for
   * each source rank, in a group ordered by source token, without gaps. The choices of each row and
   * their weights come with it ({@link LowLatencyDispatch#topkIdx()}, {@link
   * LowLatencyDispatch#topkWeights()}), for callers who group by experts themselves. All ranks give
   * the same K, and either all or none give weights.
   *
   * <p>Combine takes one row per token back, BF16 [R, M, H]: what the caller has made of it with
   * its local experts, weighed and summed. It adds the rows of a token in the order of the ranks
   * that hold them, in FP32 from 0, and rounds once to BF16.
   */
  RANK_MAJOR
}
