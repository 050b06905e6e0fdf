package org.ep4j.engine.host.kernel;

import org.ep4j.tensor.FloatConversions;
import org.ep4j.tensor.ScaleKind;

/**
 * FP8 E4M3 (finite only: no infinities, one NaN per sign, largest value 448) and its scales, one
 * for each block of {@value #BLOCK} values of a row.
 *
 * <p>A block is quantised by these float32 operations, each rounded to nearest even:
 *
 * <ol>
 *   <li>{@code amax = max(1e-4, |x|...)}; NaNs are ignored (as with {@code fmax}).
 *   <li>{@link ScaleKind#FLOAT32}: {@code multiplier = 448 / amax}, stored scale {@code amax *
 *       (1/448)}, a multiplication by the float32 nearest to 1/448.
 *   <li>{@link ScaleKind#FLOAT32_POW2} and {@link ScaleKind#UE8M0}: {@code r = amax * (1/448)} with
 *       biased exponent e and mantissa m; {@code e + (m != 0 ? 1 : 0)} is the exponent of the
 *       scale, a power of two; {@code multiplier} is its inverse. UE8M0 stores the exponent byte.
 *   <li>Each value: {@code e4m3(x * multiplier)}, see {@link #fromFloat}.
 * </ol>
 *
 * With an infinity in the block the multiplier is 0: the scale is infinite (UE8M0: 255), infinities
 * become NaN and finite values zeros of their sign.
 */
public final class Fp8 {
  /** Values that share a scale. */
  public static final int BLOCK = 128;

  /** The NaN that rounding produces. */
  public static final byte NAN = 0x7F;

  /** The largest finite value. */
  public static final float MAX = 448f;

  /** Lower bound of {@code amax}. */
  static final float SMALLEST_AMAX = 1e-4f;

  private static final float INVERSE_MAX = 1 / MAX;

  private Fp8() {}

  /** The value of {@code bits}; exact. */
  public static float toFloat(byte bits) {
    return FloatConversions.e4m3ToFloat(bits);
  }

  /** The value of {@code bits} as bfloat16; exact, NaN becomes {@link Bf16#NAN}. */
  public static short toBf16(byte bits) {
    return (short) (Float.floatToRawIntBits(toFloat(bits)) >>> 16);
  }

  /**
   * {@code value} rounded to nearest, ties to the even code, the sign kept for zero too, saturating
   * at {@link #MAX}; any NaN becomes {@link #NAN}.
   */
  public static byte fromFloat(float value) {
    return FloatConversions.floatToE4m3(value);
  }

  /** The factor that scales a block into range. */
  static float multiplier(ScaleKind kind, float amax) {
    if (amax == Float.POSITIVE_INFINITY) {
      return 0;
    }
    return kind == ScaleKind.FLOAT32
        ? MAX / amax
        : Float.intBitsToFloat(254 - scaleExponent(amax) << 23);
  }

  /** The stored scale of kinds FLOAT32 and FLOAT32_POW2. */
  static float scale(ScaleKind kind, float amax) {
    return kind == ScaleKind.FLOAT32
        ? amax * INVERSE_MAX
        : Float.intBitsToFloat(scaleExponent(amax) << 23);
  }

  /** The biased exponent of the scale as a power of two. */
  static int scaleExponent(float amax) {
    int bits = Float.floatToRawIntBits(amax * INVERSE_MAX);
    return (bits >>> 23) + ((bits & 0x7FFFFF) != 0 ? 1 : 0);
  }
}
