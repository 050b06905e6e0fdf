package org.ep4j.engine.host.kernel;

import org.ep4j.tensor.FloatConversions;

/** IEEE binary16. */
public final class Fp16 {
  /** The one NaN that rounding produces (the same as the GPU's conversion). */
  public static final short NAN = 0x7FFF;

  private Fp16() {}

  /** The value of {@code bits}; exact. */
  public static float toFloat(short bits) {
    return FloatConversions.fp16ToFloat(bits);
  }

  /**
   * {@code value} rounded to nearest, ties to even, overflow to infinity; any NaN becomes {@link
   * #NAN}.
   */
  public static short fromFloat(float value) {
    return FloatConversions.floatToFp16(value);
  }

  /** {@code value} rounded to binary16 and widened again. */
  public static float round(float value) {
    return toFloat(fromFloat(value));
  }
}
