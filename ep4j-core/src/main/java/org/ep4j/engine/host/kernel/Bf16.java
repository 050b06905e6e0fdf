package org.ep4j.engine.host.kernel;

import org.ep4j.tensor.FloatConversions;

/** bfloat16: the upper half of an IEEE binary32. */
public final class Bf16 {
  /** The one NaN that rounding produces (the same as the GPU's conversion). */
  public static final short NAN = 0x7FFF;

  private Bf16() {}

  /** The value of {@code bits}; exact. */
  public static float toFloat(short bits) {
    return FloatConversions.bf16ToFloat(bits);
  }

  /** {@code value} rounded to nearest, ties to even; any NaN becomes {@link #NAN}. */
  public static short fromFloat(float value) {
    return FloatConversions.floatToBf16(value);
  }

  /** {@code value} rounded to bfloat16 and widened again. */
  public static float round(float value) {
    return toFloat(fromFloat(value));
  }
}
