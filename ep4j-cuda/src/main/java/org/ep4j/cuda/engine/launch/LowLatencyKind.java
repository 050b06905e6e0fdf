package org.ep4j.cuda.engine.launch;

import org.ep4j.engine.lowlatency.LowLatencyFormat;

/**
 * Kind of a dispatch, as sent in the headers: the properties that all ranks must share to read each
 * other's rows. The lowest bits are the index of a {@link LowLatencyFormat}.
 */
public final class LowLatencyKind {
  private static final long FORMAT = 7;
  private static final long RANK_MAJOR = 8;

  /** {@code KIND_WEIGHTED} of {@code kernels/lowlatency/low_latency.cuh}. */
  private static final long WEIGHTED = 16;

  private static final int KIND_BITS = 8;
  private static final int ROW_BLOCKS = 16;

  /** {@code ROW_BLOCK} of {@code kernels/lowlatency/low_latency.cuh}. */
  private static final int BLOCK = 128;

  private LowLatencyKind() {}

  public static long of(LowLatencyFormat format, boolean rankMajor, boolean weighted) {
    return format.index() | (rankMajor ? RANK_MAJOR : 0) | (weighted ? WEIGHTED : 0);
  }

  /**
   * Text for messages of a kind with the number of choices above it and the blocks of a row above
   * that, if known, as kernels record it.
   */
  public static String text(long word) {
    return LowLatencyFormat.text(
        word & FORMAT,
        (word >>> ROW_BLOCKS) * BLOCK,
        (word & RANK_MAJOR) != 0,
        word >>> KIND_BITS & 0xff,
        (word & WEIGHTED) != 0);
  }
}
