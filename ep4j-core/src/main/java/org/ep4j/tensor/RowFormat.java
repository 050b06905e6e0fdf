package org.ep4j.tensor;

/**
 * Format to which low-latency dispatch converts BF16 rows. A NaN does not count for the scale of
 * its block.
 */
public enum RowFormat {
  /** Rows stay BF16. */
  BF16,
  /**
   * Rows are quantised to FP8 E4M3 with one scale per 128 values. An infinity makes its whole block
   * NaN for a receiver that multiplies by the scale, which is infinite.
   */
  FP8,
  /**
   * Rows are quantised to NVFP4 with one E4M3 scale per 16 values. Neither infinities nor NaN
   * survive: they arrive as the largest value of their block, a NaN as a positive one. Look for
   * them before the dispatch.
   */
  NVFP4
}
