package org.ep4j.tensor;

import org.ep4j.Tokens;

/** Memory layout of the scales of N rows, S scales per row. */
public enum ScaleLayout {
  /** [N, S]: the scales of a row are adjacent, as sent. */
  ROW_MAJOR,
  /**
   * [S, A]: the scales of a column are adjacent, as the tensor memory accelerator loads them for a
   * grouped matrix product. For received rows A is N rounded up to whole 16 bytes, see {@link
   * #columnLength}; {@link Tokens} may have any A of at least N. Values behind the N-th scale of a
   * column are undefined.
   */
  COLUMN_MAJOR;

  private static final int BITS = 128;

  /** The length A of a column of scales, in elements. */
  public static long columnLength(DType scales, long rows) {
    int multiple = BITS / scales.bits();
    return (rows + multiple - 1) / multiple * multiple;
  }
}
