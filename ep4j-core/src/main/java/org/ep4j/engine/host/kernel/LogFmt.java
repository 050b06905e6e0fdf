package org.ep4j.engine.host.kernel;

/**
 * LogFMT-10: a BF16 row as signs and 9-bit logarithms, ten bits per value, for low-latency combine.
 * Everything is defined by integer operations and float32 operations that round to nearest even, so
 * that every engine can produce the same bits; there is no call of a logarithm.
 *
 * <p><b>Layout of an encoded row.</b> First one meta word of four bytes for each group of {@value
 * #GROUP} values: the bf16 bits of the group's largest magnitude in the lower half, of its smallest
 * in the upper half (both as integers, without signs). Then the chunks, consecutively. A chunk has
 * 1024 values if the row is a multiple of that, else 512, else 128. It is packed (10 bits per
 * value) if all its groups are packable, else raw (the BF16 values); a reader decides by the meta
 * words. 16 consecutive values are packed to 20 bytes: the code of value i in bits 9i to 9i+8 of a
 * little-endian number of 160 bits, its sign in bit 144+i.
 *
 * <p><b>Packable</b> is a group with {@code floor < max < 0x3F80}: magnitudes below 1, not all the
 * same. Here {@code max} and {@code min} are the bits of the meta word and {@code floor = max(min,
 * max - 0x1000, 0x0080)}: logarithms reach down 32 at most, and not into subnormals.
 *
 * <p><b>Codes.</b> Write the bits of a magnitude as {@code 128 e + m}, and let {@code f = m / 128}.
 * {@code Q(f)} approximates {@code log2(1 + f) / f} by a polynomial of degree 5, evaluated by fma
 * from the highest power down ({@link #LOG_5} to {@link #LOG_0}). Of the group:
 *
 * <pre>
 *   e0, f0  = of floor;  u0 = f0 * Q(f0)
 *   range   = float(eMax - e0) + fma(fMax, Q(fMax), -u0)
 *   step    = range / 510;  inverse = 1 / step
 *   half    = fma(step, -ln2/8, 1)              // codes round to the nearest value, not logarithm
 * </pre>
 *
 * and of a value:
 *
 * <pre>
 *   d    = float(e - e0) + fma(f, Q(f), -u0)
 *   c    = max(fma(d, inverse, half), 0) + 2^23
 *   code = bits(c) - bits(2^23)                  // at most 511
 * </pre>
 *
 * <p><b>Values.</b> Code 0 is a zero (of either sign). Else:
 *
 * <pre>
 *   y     = fma(float(code), step, u0 - step)
 *   t     = y + 1.5 * 2^23;  n = bits(t) - bits(1.5 * 2^23);  r = y - (t - 1.5 * 2^23)
 *   E     = 2^r by a polynomial of degree 4, evaluated by fma ({@link #EXP_4} to 1)
 *   value = bf16(E * 2^(n + e0 - 127)), the exponent added to the bits of E
 * </pre>
 */
public final class LogFmt {
  /** Values that share a meta word. */
  public static final int GROUP = 128;

  // log2(1 + f) / f on [0, 1); f times the polynomial has an error of at most 2.1e-6.
  static final float LOG_0 = 0x1.714b70p0f;
  static final float LOG_1 = -0x1.6fcc30p-1f;
  static final float LOG_2 = 0x1.d5abb8p-2f;
  static final float LOG_3 = -0x1.1f2b7ep-2f;
  static final float LOG_4 = 0x1.fd72b4p-4f;
  static final float LOG_5 = -0x1.b73374p-6f;

  // 2^r on [-0.5, 0.5], relative error at most 2.9e-6; the constant term is 1.
  static final float EXP_1 = 0x1.62e12cp-1f;
  static final float EXP_2 = 0x1.ec0378p-3f;
  static final float EXP_3 = 0x1.c9fc5ap-5f;
  static final float EXP_4 = 0x1.3a02e0p-7f;

  /** -ln2 / 8: moves the boundary between two codes to the middle between their values. */
  static final float BORDER = -0x1.62e430p-4f;

  /** A sum of this and a small positive number has the rounded number in its lowest bits. */
  static final float UNIT = 0x1p23f;

  /** The same for a small number of any sign, in two's complement. */
  static final float INTEGRAL = 0x1.8p23f;

  private static final int ONE = 0x3F80;
  private static final int LARGEST_RANGE = 32 << 7;
  private static final int SMALLEST_NORMAL = 1 << 7;

  private LogFmt() {}

  /** Maximum bytes of an encoded row of {@code hidden} values. */
  public static int maxBytes(int hidden) {
    return metaBytes(hidden) + 2 * hidden;
  }

  /** Bytes of a row's meta words. */
  static int metaBytes(int hidden) {
    return hidden / GROUP * Integer.BYTES;
  }

  /** Values of a chunk. */
  static int chunk(int hidden) {
    return hidden % 1024 == 0 ? 1024 : hidden % 512 == 0 ? 512 : GROUP;
  }

  /** Bytes of a packed chunk. */
  static int packedBytes(int chunk) {
    return chunk * 10 / 8;
  }

  /** Whether a group with this meta word can be packed. */
  static boolean packable(int meta) {
    int max = meta & 0xFFFF;
    return max < ONE && floor(meta) < max;
  }

  /** The bf16 bits of the smallest magnitude that has a code of its own. */
  static int floor(int meta) {
    int max = meta & 0xFFFF;
    return Math.max(Math.max(meta >>> 16, max - LARGEST_RANGE), SMALLEST_NORMAL);
  }

  /** The logarithm of the magnitude with these bits, without its exponent, plus {@code offset}. */
  static float fractionLog(int bits, float offset) {
    float f = (bits & 0x7F) * 0x1p-7f;
    float q = LOG_5;
    q = Math.fma(q, f, LOG_4);
    q = Math.fma(q, f, LOG_3);
    q = Math.fma(q, f, LOG_2);
    q = Math.fma(q, f, LOG_1);
    q = Math.fma(q, f, LOG_0);
    return Math.fma(f, q, offset);
  }

  /** The distance between the logarithms of two neighbouring codes in a packable group. */
  static float step(int meta) {
    int max = meta & 0xFFFF;
    int floor = floor(meta);
    float range = ((max >>> 7) - (floor >>> 7)) + fractionLog(max, -fractionLog(floor, 0));
    return range / 510;
  }

  /** Addend for a quotient before it is rounded to a code. */
  static float half(float step) {
    return Math.fma(step, BORDER, 1);
  }

  /** The code of the magnitude with these bits. */
  static int code(int bits, int e0, float u0, float inverse, float half) {
    float d = ((bits >>> 7) - e0) + fractionLog(bits, -u0);
    float c = Math.max(Math.fma(d, inverse, half), 0) + UNIT;
    return Float.floatToRawIntBits(c) - Float.floatToRawIntBits(UNIT);
  }

  /** The bf16 bits of the magnitude with this code. */
  static int magnitude(int code, int e0, float u0, float step) {
    if (code == 0) {
      return 0;
    }
    float y = Math.fma((float) code, step, u0 - step);
    float t = y + INTEGRAL;
    float r = y - (t - INTEGRAL);
    float e = EXP_4;
    e = Math.fma(e, r, EXP_3);
    e = Math.fma(e, r, EXP_2);
    e = Math.fma(e, r, EXP_1);
    e = Math.fma(e, r, 1);
    int n = Float.floatToRawIntBits(t) - Float.floatToRawIntBits(INTEGRAL);
    int bits = Float.floatToRawIntBits(e) + (n + e0 - 127 << 23);
    return bits + 0x7FFF + (bits >>> 16 & 1) >>> 16;
  }
}
