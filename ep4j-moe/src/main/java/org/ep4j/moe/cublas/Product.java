package org.ep4j.moe.cublas;

import org.ep4j.error.ErrorCode;
import org.ep4j.error.InvalidArgumentException;

/**
 * A product of BF16 matrices in device memory, row-major without gaps: {@code out = left · right},
 * or {@code out += left · right}. Sums are in FP32.
 *
 * @param rows of {@code out}
 * @param columns of {@code out}
 * @param terms columns of the left factor, rows of the right one
 * @param left address of [rows, terms]; transposed: of [terms, rows]
 * @param leftTransposed whether the memory holds the transposed matrix
 * @param right address of [terms, columns]; transposed: of [columns, terms]
 * @param rightTransposed whether the memory holds the transposed matrix
 * @param out address of [rows, columns], in the memory of neither factor
 * @param fp32 whether {@code out} is FP32; otherwise BF16
 * @param adds whether the product is added to {@code out}
 */
public record Product(
    int rows,
    int columns,
    int terms,
    long left,
    boolean leftTransposed,
    long right,
    boolean rightTransposed,
    long out,
    boolean fp32,
    boolean adds) {
  /** Refuses an empty product. */
  public Product {
    if (rows < 1 || columns < 1 || terms < 1) {
      throw new InvalidArgumentException(
          ErrorCode.MOE_SHAPE,
          "product",
          "[" + rows + ", " + terms + "] by [" + terms + ", " + columns + "]",
          "at least one row, column and term",
          "leave empty products out");
    }
  }

  /** {@code left · rightᵀ} in BF16: rows by a matrix of weights [columns, terms]. */
  public static Product byWeights(
      int rows, int columns, int terms, long left, long weights, long out) {
    return new Product(rows, columns, terms, left, false, weights, true, out, false, false);
  }

  /** {@code left · right} in BF16: gradients of rows by a matrix of weights [terms, columns]. */
  public static Product back(int rows, int columns, int terms, long left, long weights, long out) {
    return new Product(rows, columns, terms, left, false, weights, false, out, false, false);
  }

  /** {@code leftᵀ · right} in FP32: the gradient of weights, from {@code terms} rows of both. */
  public static Product ofWeights(
      int rows, int columns, int terms, long left, long right, long out) {
    return new Product(rows, columns, terms, left, true, right, false, out, true, false);
  }

  /** The same product with an FP32 result, to which it is added or not. */
  public Product inFp32(boolean added) {
    return new Product(
        rows, columns, terms, left, leftTransposed, right, rightTransposed, out, true, added);
  }
}
