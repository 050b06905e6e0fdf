package org.ep4j;

import org.ep4j.error.ErrorCode;
import org.ep4j.error.InvalidArgumentException;
import org.ep4j.tensor.DType;
import org.ep4j.tensor.ScaleLayout;
import org.ep4j.tensor.Tensor;
import org.jspecify.annotations.Nullable;

/**
 * The payload of a dispatch: token rows and, for quantised rows, their scales. Dispatch transports
 * rows and scales as opaque bytes and never changes a bit.
 *
 * <p>Scales arrive with their row. For {@link DType#FP8_E4M3} they are FP32 [T, H/128], UE8M0 [T,
 * H/128] or INT32 [T, H/512] (four packed UE8M0 exponents); any FP32 or INT32 [T, S] is accepted.
 * For {@link DType#NVFP4} they are FP8_E4M3 [T, H/16].
 *
 * <p>Scales that a quantisation kernel wrote by columns are given as {@link
 * ScaleLayout#COLUMN_MAJOR}, [S, A] with columns of any length A of at least T; elements behind the
 * T-th of a column are not read. Engines turn them into rows, which costs a pass over the scales.
 *
 * @param x rows [T, H]
 * @param scales block scales [T, S], with COLUMN_MAJOR [S, A], or null for rows without scales
 * @param globalScales FP32 [T], one per token, for NVFP4; null if all ranks know the factor
 * @param scaleLayout memory layout of {@code scales}; ranks may differ
 */
public record Tokens(
    Tensor x, @Nullable Tensor scales, @Nullable Tensor globalScales, ScaleLayout scaleLayout) {
  /**
   * Checks dtypes and shapes against each other.
   *
   * @throws InvalidArgumentException if they do not fit
   */
  public Tokens {
    if (x.dimensions() != 2) {
      throw new InvalidArgumentException(
          ErrorCode.PAYLOAD_SHAPE, "x", x.toString(), "[tokens, hidden]", "reshape the tensor");
    }
    boolean byColumns = scaleLayout == ScaleLayout.COLUMN_MAJOR;
    if (scales != null
        && (scales.dimensions() != 2
            || (byColumns ? scales.size(1) < x.size(0) : scales.size(0) != x.size(0))
            || !(scales.dtype() == DType.FP32
                || scales.dtype() == DType.INT32
                || scales.dtype() == DType.UE8M0
                || scales.dtype() == DType.FP8_E4M3))) {
      throw new InvalidArgumentException(
          ErrorCode.PAYLOAD_SCALES,
          "scales",
          scales.toString(),
          byColumns
              ? "FP32, INT32, UE8M0 or FP8_E4M3 [scales per row, at least " + x.size(0) + "]"
              : "FP32, INT32, UE8M0 or FP8_E4M3 [" + x.size(0) + ", scales per row]",
          "pass the block scales of every row");
    }
    if (scales != null && x.dtype() != DType.FP8_E4M3 && x.dtype() != DType.NVFP4) {
      throw new InvalidArgumentException(
          ErrorCode.PAYLOAD_SCALES,
          "scales",
          scales.toString(),
          "null for " + x.dtype() + " rows",
          "pass scales only with FP8_E4M3 and NVFP4 rows");
    }
    if (globalScales != null
        && (x.dtype() != DType.NVFP4
            || globalScales.dtype() != DType.FP32
            || globalScales.dimensions() != 1
            || globalScales.size(0) != x.size(0))) {
      throw new InvalidArgumentException(
          ErrorCode.PAYLOAD_SCALES,
          "globalScales",
          globalScales.toString(),
          "FP32[" + x.size(0) + "] with NVFP4 rows",
          "pass one factor per token, or pass null");
    }
  }

  /**
   * Rows with scales by rows, {@link ScaleLayout#ROW_MAJOR}.
   *
   * @throws InvalidArgumentException if dtypes or shapes do not fit
   */
  public Tokens(Tensor x, @Nullable Tensor scales, @Nullable Tensor globalScales) {
    this(x, scales, globalScales, ScaleLayout.ROW_MAJOR);
  }

  /** Rows without scales. */
  public static Tokens of(Tensor x) {
    return new Tokens(x, null, null);
  }

  /** Rows with block scales. */
  public static Tokens of(Tensor x, Tensor scales) {
    return new Tokens(x, scales, null);
  }

  /** Rows with block scales in a layout: [T, S], or [S, A] with A of at least T. */
  public static Tokens of(Tensor x, Tensor scales, ScaleLayout scaleLayout) {
    return new Tokens(x, scales, null, scaleLayout);
  }

  /** NVFP4 rows with block scales and one factor per token. */
  public static Tokens of(Tensor x, Tensor scales, Tensor globalScales) {
    return new Tokens(x, scales, globalScales);
  }

  /** Number of tokens T. */
  public int tokens() {
    return Math.toIntExact(x.size(0));
  }

  /** Number of scales of a row S; 0 without scales. */
  public long scalesPerRow() {
    Tensor given = scales;
    return given == null ? 0 : given.size(scaleLayout == ScaleLayout.COLUMN_MAJOR ? 0 : 1);
  }
}
