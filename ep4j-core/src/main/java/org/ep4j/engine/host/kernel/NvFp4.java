package org.ep4j.engine.host.kernel;

import org.ep4j.tensor.FloatConversions;

/**
 * NVFP4: E2M1 values (0, 0.5, 1, 1.5, 2, 3, 4, 6 and their negatives), one E4M3 scale for each
 * block of {@value #BLOCK} values, one float32 for the token or the whole tensor. Two values share
 * a byte, the even element in the low nibble; the scales of a row lie one after another.
 *
 * <p>The float32 is a multiplier {@code g}, positive and finite, usually {@link #globalScale}. A
 * block is quantised by these float32 operations, each rounded to nearest even:
 *
 * <ol>
 *   <li>{@code amax = max(0, |x|...)}; a NaN does not count (as with {@code fmax}).
 *   <li>{@code scale = e4m3(g * (amax * (1/6)))}, the inner product first, with the float32 nearest
 *       to 1/6; {@link Fp8#fromFloat} rounds and saturates. This byte is stored.
 *   <li>{@code multiplier = scale == 0 ? 0 : g / float(scale)}.
 *   <li>Each value: {@code e2m1(x * multiplier)}, see {@link #fromFloat}.
 * </ol>
 *
 * Back: {@code x = bf16(float(value) * (float(scale) / g))}, the quotient first.
 */
public final class NvFp4 {
  /** Values that share a scale. */
  public static final int BLOCK = 16;

  /** The largest value. */
  public static final float MAX = 6f;

  private static final float INVERSE_MAX = 1 / MAX;

  private NvFp4() {}

  /**
   * The multiplier with the best precision for values up to {@code amax}: {@code (448 * 6) / amax},
   * at most the largest float32, and 1 for 0.
   */
  public static float globalScale(float amax) {
    return amax == 0 ? 1 : Math.min(Fp8.MAX * MAX / amax, Float.MAX_VALUE);
  }

  /** The value of the low four bits of {@code code}. */
  public static float toFloat(int code) {
    return FloatConversions.e2m1ToFloat(code);
  }

  /**
   * {@code value} rounded to nearest, ties to the even code, the sign kept for zero too, saturating
   * at {@link #MAX}; a NaN becomes +6. Four bits.
   */
  public static int fromFloat(float value) {
    return FloatConversions.floatToE2m1(value);
  }

  /** The E4M3 scale of a block. */
  static byte scale(float globalScale, float amax) {
    return Fp8.fromFloat(globalScale * (amax * INVERSE_MAX));
  }

  /** The factor that scales a block into range. */
  static float multiplier(float globalScale, byte scale) {
    return scale == 0 ? 0 : globalScale / Fp8.toFloat(scale);
  }

  /** The factor that scales a block back. */
  static float inverse(float globalScale, byte scale) {
    return Fp8.toFloat(scale) / globalScale;
  }
}
