package org.ep4j.config;

import org.ep4j.FlatDispatch;
import org.ep4j.GroupedDispatch;
import org.ep4j.RankMajorDispatch;

/**
 * Order of received rows. R ranks, L local experts, at most M tokens per rank in low-latency
 * operations, K choices per token, H elements per row.
 */
public enum Layout {
  /**
   * High throughput: one row per received token, ordered by (source rank, source token). See {@link
   * FlatDispatch}.
   */
  FLAT,

  /**
   * One row per (token, local expert), grouped by local expert; a group is ordered by (source rank,
   * source token). High throughput: groups start at multiples of the expert alignment, see {@link
   * GroupedDispatch}. Low latency: each group has space for R*M rows, [L, R*M, H].
   */
  EXPERT_MAJOR,

  /**
   * Low latency: one row per token, independent of the number of its local experts, [R, M, H]: a
   * group per source rank, ordered by source token, without gaps. See {@link RankMajorDispatch}.
   * All ranks use the same K, and either all or no ranks pass weights.
   *
   * <p>Combine accepts one row per token, BF16 [R, M, H]: the weighted sum over the local experts,
   * computed by the caller. Combine adds the rows of a token in rank order, in FP32 from 0, and
   * rounds once to BF16.
   */
  RANK_MAJOR
}
