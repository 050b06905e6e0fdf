package org.ep4j.moe;

import java.util.stream.IntStream;
import jdk.incubator.vector.FloatVector;
import jdk.incubator.vector.VectorMask;
import jdk.incubator.vector.VectorSpecies;

/**
 * A view of FP32 values in an array: element (i, j) is at {@code offset + i * rowStride + j *
 * columnStride}.
 *
 * <p>A product adds each element's terms in ascending order, each by one fused multiply-add. So an
 * element depends on its row and column alone, not on the width of vectors, the number of threads
 * or the other rows of a batch.
 */
@SuppressWarnings("ArrayRecordComponent") // a view: not compared
record Matrix(float[] values, int offset, int rows, int columns, int rowStride, int columnStride) {
  private static final VectorSpecies<Float> SPECIES = FloatVector.SPECIES_PREFERRED;
  private static final int LANES = SPECIES.length();

  /** Rows and vectors whose sums stay in registers. */
  private static final int TILE_ROWS = 4;

  private static final int TILE_COLUMNS = 2 * LANES;

  /** Terms after which sums go through memory: the rows of the right factor stay in the cache. */
  private static final int TERMS = 256;

  /** Part of a product that a thread computes. */
  private static final int BLOCK_ROWS = 64;

  private static final int BLOCK_COLUMNS = 256;

  /** Products of fewer multiplications stay in the calling thread. */
  private static final long PARALLEL_FROM = 1 << 18;

  /** All of an array, row-major. */
  static Matrix of(float[] values, int rows, int columns) {
    return new Matrix(values, 0, rows, columns, columns, 1);
  }

  static Matrix zeros(int rows, int columns) {
    return of(new float[Math.multiplyExact(rows, columns)], rows, columns);
  }

  /** Rows {@code from} (inclusive) to {@code to} (exclusive); shares the values. */
  Matrix rows(int from, int to) {
    return new Matrix(
        values, offset + from * rowStride, to - from, columns, rowStride, columnStride);
  }

  /** Rows and columns exchanged; shares the values. */
  Matrix transposed() {
    return new Matrix(values, offset, columns, rows, columnStride, rowStride);
  }

  /** A row-major copy. */
  Matrix copy() {
    Matrix copy = zeros(rows, columns);
    // By blocks: one of both sides is read across its rows if this is transposed.
    for (int row = 0; row < rows; row += BLOCK_ROWS) {
      for (int column = 0; column < columns; column += BLOCK_ROWS) {
        for (int i = row; i < Math.min(rows, row + BLOCK_ROWS); i++) {
          for (int j = column; j < Math.min(columns, column + BLOCK_ROWS); j++) {
            copy.values[i * columns + j] = values[offset + i * rowStride + j * columnStride];
          }
        }
      }
    }
    return copy;
  }

  /**
   * Adds {@code left · right} to this matrix.
   *
   * @param right a matrix whose columns are adjacent, as those of this matrix
   */
  void addProduct(Matrix left, Matrix right) {
    if (left.rows != rows
        || left.columns != right.rows
        || right.columns != columns
        || right.columnStride != 1
        || columnStride != 1) {
      throw new IllegalArgumentException(left.text() + " by " + right.text() + " into " + text());
    }
    int across = (columns + BLOCK_COLUMNS - 1) / BLOCK_COLUMNS;
    int blocks = (rows + BLOCK_ROWS - 1) / BLOCK_ROWS * across;
    IntStream all = IntStream.range(0, blocks);
    if ((long) rows * columns * right.rows >= PARALLEL_FROM) {
      all = all.parallel();
    }
    all.forEach(
        block ->
            addBlock(left, right, block / across * BLOCK_ROWS, block % across * BLOCK_COLUMNS));
  }

  private void addBlock(Matrix left, Matrix right, int firstRow, int firstColumn) {
    int endRow = Math.min(rows, firstRow + BLOCK_ROWS);
    int endColumn = Math.min(columns, firstColumn + BLOCK_COLUMNS);
    for (int first = 0; first < right.rows; first += TERMS) {
      int end = Math.min(right.rows, first + TERMS);
      int column = firstColumn;
      for (; column + TILE_COLUMNS <= endColumn; column += TILE_COLUMNS) {
        int row = firstRow;
        for (; row + TILE_ROWS <= endRow; row += TILE_ROWS) {
          addTile(left, right, row, column, first, end);
        }
        for (; row < endRow; row++) {
          addRow(left, right, row, column, first, end);
        }
      }
      for (; column < endColumn; column += LANES) {
        for (int row = firstRow; row < endRow; row++) {
          addMasked(left, right, row, column, endColumn, first, end);
        }
      }
    }
  }

  /** Four rows of two vectors: eight independent chains cover the latency of an addition. */
  private void addTile(Matrix left, Matrix right, int row, int column, int first, int end) {
    float[] a = left.values;
    float[] b = right.values;
    int c0 = offset + row * rowStride + column;
    int c1 = c0 + rowStride;
    int c2 = c1 + rowStride;
    int c3 = c2 + rowStride;
    FloatVector s00 = FloatVector.fromArray(SPECIES, values, c0);
    FloatVector s01 = FloatVector.fromArray(SPECIES, values, c0 + LANES);
    FloatVector s10 = FloatVector.fromArray(SPECIES, values, c1);
    FloatVector s11 = FloatVector.fromArray(SPECIES, values, c1 + LANES);
    FloatVector s20 = FloatVector.fromArray(SPECIES, values, c2);
    FloatVector s21 = FloatVector.fromArray(SPECIES, values, c2 + LANES);
    FloatVector s30 = FloatVector.fromArray(SPECIES, values, c3);
    FloatVector s31 = FloatVector.fromArray(SPECIES, values, c3 + LANES);
    int step = left.rowStride;
    int at = left.offset + row * step + first * left.columnStride;
    int from = right.offset + first * right.rowStride + column;
    for (int term = first; term < end; term++) {
      FloatVector b0 = FloatVector.fromArray(SPECIES, b, from);
      FloatVector b1 = FloatVector.fromArray(SPECIES, b, from + LANES);
      FloatVector factor = FloatVector.broadcast(SPECIES, a[at]);
      s00 = factor.fma(b0, s00);
      s01 = factor.fma(b1, s01);
      factor = FloatVector.broadcast(SPECIES, a[at + step]);
      s10 = factor.fma(b0, s10);
      s11 = factor.fma(b1, s11);
      factor = FloatVector.broadcast(SPECIES, a[at + 2 * step]);
      s20 = factor.fma(b0, s20);
      s21 = factor.fma(b1, s21);
      factor = FloatVector.broadcast(SPECIES, a[at + 3 * step]);
      s30 = factor.fma(b0, s30);
      s31 = factor.fma(b1, s31);
      at += left.columnStride;
      from += right.rowStride;
    }
    s00.intoArray(values, c0);
    s01.intoArray(values, c0 + LANES);
    s10.intoArray(values, c1);
    s11.intoArray(values, c1 + LANES);
    s20.intoArray(values, c2);
    s21.intoArray(values, c2 + LANES);
    s30.intoArray(values, c3);
    s31.intoArray(values, c3 + LANES);
  }

  private void addRow(Matrix left, Matrix right, int row, int column, int first, int end) {
    int to = offset + row * rowStride + column;
    FloatVector s0 = FloatVector.fromArray(SPECIES, values, to);
    FloatVector s1 = FloatVector.fromArray(SPECIES, values, to + LANES);
    int at = left.offset + row * left.rowStride + first * left.columnStride;
    int from = right.offset + first * right.rowStride + column;
    for (int term = first; term < end; term++) {
      FloatVector factor = FloatVector.broadcast(SPECIES, left.values[at]);
      s0 = factor.fma(FloatVector.fromArray(SPECIES, right.values, from), s0);
      s1 = factor.fma(FloatVector.fromArray(SPECIES, right.values, from + LANES), s1);
      at += left.columnStride;
      from += right.rowStride;
    }
    s0.intoArray(values, to);
    s1.intoArray(values, to + LANES);
  }

  /** One vector of a row, or its first lanes. */
  private void addMasked(
      Matrix left, Matrix right, int row, int column, int endColumn, int first, int end) {
    VectorMask<Float> mask = SPECIES.indexInRange(column, endColumn);
    int to = offset + row * rowStride + column;
    FloatVector sum = FloatVector.fromArray(SPECIES, values, to, mask);
    int at = left.offset + row * left.rowStride + first * left.columnStride;
    int from = right.offset + first * right.rowStride + column;
    for (int term = first; term < end; term++) {
      FloatVector factor = FloatVector.broadcast(SPECIES, left.values[at]);
      sum = factor.fma(FloatVector.fromArray(SPECIES, right.values, from, mask), sum);
      at += left.columnStride;
      from += right.rowStride;
    }
    sum.intoArray(values, to, mask);
  }

  private String text() {
    return "[" + rows + ", " + columns + "]";
  }
}
