package org.ep4j.tensor;

/** Format to which low-latency dispatch converts BF16 rows. */
public enum RowFormat {
  /** Rows stay BF16. */
  BF16,
  /** Rows are quantised to FP8 E4M3 with one scale per 128 values. */
  FP8,
  /** Rows are quantised to NVFP4 with one E4M3 scale per 16 values. */
  NVFP4
}
