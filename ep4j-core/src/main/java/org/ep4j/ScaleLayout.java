package org.ep4j;

/** How the scales of N received rows lie in memory, S of them a row. */
public enum ScaleLayout {
  /** [N, S]: those of a row side by side, as they were sent. */
  ROW_MAJOR,
  /**
   * [S, A]: those of a column side by side, as the tensor memory accelerator loads them for a
   * grouped matrix product. A is N rounded up to whole 16 bytes, see {@link #columnLength}; what
   * lies behind the N-th scale of a column is undefined.
   */
  COLUMN_MAJOR;

  private static final int BITS = 128;

  /** The extent A of a column of scales. */
  public static long columnLength(DType scales, long rows) {
    int multiple = BITS / scales.bits();
    return (rows + multiple - 1) / multiple * multiple;
  }
}
