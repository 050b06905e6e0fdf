package org.ep4j.verify;

import java.lang.foreign.MemorySegment;
import org.ep4j.tensor.DType;
import org.ep4j.tensor.ScaleLayout;
import org.ep4j.tensor.Tensor;

/** Transposes scales in columns back to rows, for comparison with the inputs. */
final class ScaleRows {
  private ScaleRows() {}

  /**
   * The bytes [groups, rows, columns] of the first rows of each group.
   *
   * @param scales by columns of {@code length} rows, {@link ScaleLayout#COLUMN_MAJOR}
   * @param dtype of an element of a column
   */
  static MemorySegment of(
      Tensor scales, DType dtype, long groups, long rows, long columns, long length) {
    long element = dtype.bytes(1);
    MemorySegment from = scales.segment();
    MemorySegment byRows =
        MemorySegment.ofArray(new byte[Math.toIntExact(groups * rows * columns * element)]);
    for (long g = 0; g < groups; g++) {
      for (long i = 0; i < rows; i++) {
        for (long c = 0; c < columns; c++) {
          long at = ((g * columns + c) * length + i) * element;
          long to = ((g * rows + i) * columns + c) * element;
          MemorySegment.copy(from, at, byRows, to, element);
        }
      }
    }
    return byRows;
  }
}
