package org.ep4j;

/** What low-latency dispatch makes of BF16 rows on their way. */
public enum RowFormat {
  /** Rows stay BF16. */
  BF16,
  /** Rows are quantised to FP8 E4M3 with a scale per 128 values. */
  FP8,
  /** Rows are quantised to NVFP4 with an E4M3 scale per 16 values. */
  NVFP4
}
