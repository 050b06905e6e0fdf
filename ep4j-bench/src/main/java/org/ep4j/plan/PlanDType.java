package org.ep4j.plan;

/** Rows of a planned dispatch. A combine moves BF16. */
public enum PlanDType {
  /** One byte a value, and an FP32 scale for each 128 values. */
  FP8,
  /** Two bytes a value. */
  BF16;

  private static final int SCALE_BLOCK = 128;

  /** Header of a low-latency row: the index of its token, padded. */
  private static final int LOW_LATENCY_HEADER = 16;

  /** Bytes of a row with its scales. */
  public int rowBytes(int hidden) {
    return switch (this) {
      case FP8 -> hidden + hidden / SCALE_BLOCK * Float.BYTES;
      case BF16 -> 2 * hidden;
    };
  }

  /** Bytes of a row that a low-latency dispatch sends. */
  public int lowLatencyBytes(int hidden) {
    return rowBytes(hidden) + LOW_LATENCY_HEADER;
  }
}
