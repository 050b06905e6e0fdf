package org.ep4j;

import org.jspecify.annotations.Nullable;

/**
 * The payload of a dispatch: token rows and, for quantised rows, their scales. Rows and scales are
 * opaque bytes on the way: dispatch never changes a bit of them.
 *
 * <p>Scales travel with their row. For {@link DType#FP8_E4M3} they are FP32 [T, H/128], UE8M0 [T,
 * H/128] or INT32 [T, H/512] (four packed UE8M0 exponents); any FP32 or INT32 [T, S] is accepted.
 * For {@link DType#NVFP4} they are FP8_E4M3 [T, H/16].
 *
 * @param x rows [T, H]
 * @param scales block scales [T, S], or null for rows without scales
 * @param globalScales FP32 [T], one a token, for NVFP4; null when the factor is known to everybody
 */
public record Tokens(Tensor x, @Nullable Tensor scales, @Nullable Tensor globalScales) {
  /** Checks dtypes and shapes against each other. */
  public Tokens {
    if (x.dimensions() != 2) {
      throw new InvalidArgumentException("x", x.toString(), "[tokens, hidden]", "reshape it");
    }
    if (scales != null
        && (scales.dimensions() != 2
            || scales.size(0) != x.size(0)
            || !(scales.dtype() == DType.FP32
                || scales.dtype() == DType.INT32
                || scales.dtype() == DType.UE8M0
                || scales.dtype() == DType.FP8_E4M3))) {
      throw new InvalidArgumentException(
          "scales",
          scales.toString(),
          "FP32, INT32, UE8M0 or FP8_E4M3 [" + x.size(0) + ", scales a row]",
          "pass the block scales of every row");
    }
    if (scales != null && x.dtype() != DType.FP8_E4M3 && x.dtype() != DType.NVFP4) {
      throw new InvalidArgumentException(
          "scales",
          scales.toString(),
          "absent for " + x.dtype() + " rows",
          "only FP8_E4M3 and NVFP4 rows carry scales");
    }
    if (globalScales != null
        && (x.dtype() != DType.NVFP4
            || globalScales.dtype() != DType.FP32
            || globalScales.dimensions() != 1
            || globalScales.size(0) != x.size(0))) {
      throw new InvalidArgumentException(
          "globalScales",
          globalScales.toString(),
          "FP32[" + x.size(0) + "] beside NVFP4 rows",
          "pass one factor a token, or leave it out");
    }
  }

  /** Rows without scales. */
  public static Tokens of(Tensor x) {
    return new Tokens(x, null, null);
  }

  /** Rows with block scales. */
  public static Tokens of(Tensor x, Tensor scales) {
    return new Tokens(x, scales, null);
  }

  /** NVFP4 rows with block scales and one factor a token. */
  public static Tokens of(Tensor x, Tensor scales, Tensor globalScales) {
    return new Tokens(x, scales, globalScales);
  }

  /** Number of tokens T. */
  public int tokens() {
    return Math.toIntExact(x.size(0));
  }
}
