package org.ep4j.engine.host.kernel;

/** IEEE binary32 as the result of a kernel. */
public final class Fp32 {
  /** The one NaN that a kernel stores (the same as the GPU's arithmetic). */
  public static final int NAN = 0x7FFFFFFF;

  private Fp32() {}

  /** The bits to store for {@code value}: every NaN is {@link #NAN}, so that all engines agree. */
  public static int toBits(float value) {
    return Float.isNaN(value) ? NAN : Float.floatToRawIntBits(value);
  }
}
