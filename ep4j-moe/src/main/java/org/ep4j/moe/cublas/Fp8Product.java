package org.ep4j.moe.cublas;

/**
 * A product of FP8 E4M3 matrices in device memory, row-major without gaps: {@code out = left ·
 * rightᵀ} in BF16, with sums in FP32. Addresses are multiples of {@link #ALIGNMENT}.
 *
 * @param rows of {@code out}, a multiple of 4
 * @param columns of {@code out}, a multiple of 128
 * @param terms columns of both factors, a multiple of 512
 * @param left address of [rows, terms]
 * @param scales address of FP32 [terms / 128, rows]: a scale for each 128 elements of a row
 * @param right address of [columns, terms]
 * @param factors address of FP32 [columns / 128, terms / 128]: a factor for each block of 128 by
 *     128
 * @param out address of [rows, columns]
 */
public record Fp8Product(
    int rows, int columns, int terms, long left, long scales, long right, long factors, long out) {
  /** Addresses are multiples. */
  public static final int ALIGNMENT = 16;

  /** Rows of products are multiples. */
  public static final int ROWS = 4;

  /** Terms are multiples: cuBLAS reads factors of four blocks at a time. */
  public static final int TERMS = 512;
}
