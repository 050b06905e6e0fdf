package org.ep4j.tensor;

import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import org.ep4j.error.ErrorCode;
import org.ep4j.error.InvalidArgumentException;

/**
 * Conversions between {@code float} and the narrow floating-point types of {@link DType}: single
 * values, arrays and memory.
 *
 * <p>To {@code float}: exact. From {@code float}: rounded to nearest, ties to the even code, the
 * sign kept for zero too. No scale is applied. The results are the bits that engines compute:
 *
 * <table>
 * <caption>Values that a type cannot hold</caption>
 * <tr><th>type</th><th>too large, infinite</th><th>NaN</th></tr>
 * <tr><td>BF16, FP16</td><td>infinity</td><td>{@code 0x7FFF}</td></tr>
 * <tr><td>FP8_E4M3</td><td>&plusmn;448</td><td>{@code 0x7F}</td></tr>
 * <tr><td>NVFP4 (E2M1)</td><td>&plusmn;6</td><td>6: the type has no NaN</td></tr>
 * </table>
 *
 * <p>Memory is in the native byte order and needs no alignment. Stateless: any thread may use the
 * methods.
 */
public final class FloatConversions {
  private static final short NAN_16 = 0x7FFF;
  private static final byte NAN_E4M3 = 0x7F;
  private static final float MAX_E4M3 = 448;
  private static final float MAX_E2M1 = 6;
  private static final int EXPONENT = 0x7F800000;
  private static final int SMALLEST_NORMAL_E4M3 = 121 << 23; // 2^-6
  private static final int SMALLEST_NORMAL_E2M1 = 127 << 23; // 1

  private static final ValueLayout.OfShort SHORTS = ValueLayout.JAVA_SHORT_UNALIGNED;

  /** Elements that pass through an array at a time: loops over arrays are several times as fast. */
  private static final int PART = 1 << 12;

  private static final float[] OF_E4M3 = new float[256];
  private static final float[] OF_E2M1 = new float[16];

  static {
    for (int bits = 0; bits < OF_E4M3.length; bits++) {
      OF_E4M3[bits] = e4m3ToFloat((byte) bits);
    }
    for (int bits = 0; bits < OF_E2M1.length; bits++) {
      OF_E2M1[bits] = e2m1ToFloat(bits);
    }
  }

  private FloatConversions() {}

  /** The value of a BF16 pattern; exact. */
  public static float bf16ToFloat(short bits) {
    return Float.intBitsToFloat(bits << 16);
  }

  /** The nearest BF16 pattern; any NaN becomes {@code 0x7FFF}. */
  public static short floatToBf16(float value) {
    if (Float.isNaN(value)) {
      return NAN_16;
    }
    int bits = Float.floatToRawIntBits(value);
    return (short) (bits + 0x7FFF + (bits >>> 16 & 1) >>> 16);
  }

  /** The value of an FP16 pattern; exact. */
  public static float fp16ToFloat(short bits) {
    return Float.float16ToFloat(bits);
  }

  /** The nearest FP16 pattern; any NaN becomes {@code 0x7FFF}. */
  public static short floatToFp16(float value) {
    return Float.isNaN(value) ? NAN_16 : Float.floatToFloat16(value);
  }

  /** The value of an FP8 E4M3 pattern; exact. */
  public static float e4m3ToFloat(byte bits) {
    int magnitude = bits & 0x7F;
    if (magnitude == NAN_E4M3) {
      return bf16ToFloat(NAN_16);
    }
    int sign = (bits & 0x80) << 24;
    return Float.intBitsToFloat(
        magnitude < 8 // subnormal: multiples of 2^-9
            ? sign | Float.floatToRawIntBits(magnitude * 0x1p-9f)
            : sign | (magnitude << 20) + (120 << 23));
  }

  /**
   * The nearest FP8 E4M3 pattern; values beyond 448, infinities too, become &plusmn;448, and any
   * NaN becomes {@code 0x7F}.
   */
  public static byte floatToE4m3(float value) {
    if (Float.isNaN(value)) {
      return NAN_E4M3;
    }
    float magnitude = Math.min(Math.abs(value), MAX_E4M3);
    // Adding 2^20 times the power of two below leaves 3 bits after the leading one, rounded to
    // nearest even: the unit of the sum's last place is 2^-3 of that power.
    int exponent = Math.max(Float.floatToRawIntBits(magnitude) & EXPONENT, SMALLEST_NORMAL_E4M3);
    int big = exponent + (20 << 23);
    int eighths = Float.floatToRawIntBits(magnitude + Float.intBitsToFloat(big)) - big;
    int code = (exponent - SMALLEST_NORMAL_E4M3 >> 20) + eighths;
    return (byte) (Float.floatToRawIntBits(value) >>> 24 & 0x80 | code);
  }

  /** The value of the low four bits of {@code code}, an E2M1 element of NVFP4; exact. */
  public static float e2m1ToFloat(int code) {
    int exponent = code >>> 1 & 3;
    int mantissa = code & 1;
    float magnitude =
        exponent == 0
            ? 0.5f * mantissa
            : Float.intBitsToFloat(126 + exponent << 23 | mantissa << 22);
    return (code & 8) == 0 ? magnitude : -magnitude;
  }

  /**
   * The nearest E2M1 element of NVFP4, four bits; values beyond 6 become &plusmn;6, and any NaN
   * becomes 6.
   */
  public static int floatToE2m1(float value) {
    if (Float.isNaN(value)) {
      return 7;
    }
    float magnitude = Math.min(Math.abs(value), MAX_E2M1);
    // As for E4M3: a sum with 2^22 times the power of two below keeps one bit after the leading
    // one.
    int exponent = Math.max(Float.floatToRawIntBits(magnitude) & EXPONENT, SMALLEST_NORMAL_E2M1);
    int big = exponent + (22 << 23);
    int halves = Float.floatToRawIntBits(magnitude + Float.intBitsToFloat(big)) - big;
    int code = (exponent - SMALLEST_NORMAL_E2M1 >> 22) + halves;
    return Float.floatToRawIntBits(value) >>> 28 & 8 | code;
  }

  /** The value of a UE8M0 scale: a power of two, 0 for pattern 0, infinity for 255. */
  public static float ue8m0ToFloat(byte bits) {
    return Float.intBitsToFloat((bits & 0xFF) << 23);
  }

  /** The values of BF16 patterns; exact. */
  public static float[] bf16ToFloat(short[] bits) {
    return toFloats(MemorySegment.ofArray(bits), DType.BF16, bits.length);
  }

  /** The nearest BF16 patterns, see {@link #floatToBf16(float)}. */
  public static short[] floatToBf16(float[] values) {
    short[] bits = new short[values.length];
    fromFloats(values, DType.BF16, MemorySegment.ofArray(bits));
    return bits;
  }

  /** The values of FP16 patterns; exact. */
  public static float[] fp16ToFloat(short[] bits) {
    return toFloats(MemorySegment.ofArray(bits), DType.FP16, bits.length);
  }

  /** The nearest FP16 patterns, see {@link #floatToFp16(float)}. */
  public static short[] floatToFp16(float[] values) {
    short[] bits = new short[values.length];
    fromFloats(values, DType.FP16, MemorySegment.ofArray(bits));
    return bits;
  }

  /** The values of FP8 E4M3 patterns; exact. */
  public static float[] e4m3ToFloat(byte[] bits) {
    return toFloats(MemorySegment.ofArray(bits), DType.FP8_E4M3, bits.length);
  }

  /** The nearest FP8 E4M3 patterns, see {@link #floatToE4m3(float)}. */
  public static byte[] floatToE4m3(float[] values) {
    byte[] bits = new byte[values.length];
    fromFloats(values, DType.FP8_E4M3, MemorySegment.ofArray(bits));
    return bits;
  }

  /** The values of UE8M0 scales, see {@link #ue8m0ToFloat(byte)}. */
  public static float[] ue8m0ToFloat(byte[] bits) {
    return toFloats(MemorySegment.ofArray(bits), DType.UE8M0, bits.length);
  }

  private static float[] toFloats(MemorySegment source, DType dtype, int count) {
    float[] values = new float[count];
    toFloats(source, dtype, values);
    return values;
  }

  /**
   * Reads {@code target.length} elements; exact.
   *
   * @param source the elements, at least as many as {@code target} holds
   * @param dtype BF16, FP16, FP32, FP8_E4M3, NVFP4 (an even number of elements) or UE8M0
   * @throws InvalidArgumentException if the type is another one or {@code source} is too short
   */
  public static void toFloats(MemorySegment source, DType dtype, float[] target) {
    if (!dtype.floating()) {
      throw noFloats(dtype, "BF16, FP16, FP32, FP8_E4M3, NVFP4 or UE8M0");
    }
    requireLength("source", source, dtype, target.length);
    int n = target.length;
    switch (dtype) {
      case BF16, FP16 -> {
        short[] part = new short[Math.min(n, PART)];
        int count;
        for (int first = 0; first < n; first += count) {
          count = Math.min(PART, n - first);
          MemorySegment.copy(source, SHORTS, 2L * first, part, 0, count);
          if (dtype == DType.BF16) {
            for (int i = 0; i < count; i++) {
              target[first + i] = bf16ToFloat(part[i]);
            }
          } else {
            for (int i = 0; i < count; i++) {
              target[first + i] = fp16ToFloat(part[i]);
            }
          }
        }
      }
      case FP32 -> MemorySegment.copy(source, ValueLayout.JAVA_FLOAT_UNALIGNED, 0, target, 0, n);
      case FP8_E4M3 -> {
        byte[] part = new byte[Math.min(n, PART)];
        int count;
        for (int first = 0; first < n; first += count) {
          count = Math.min(PART, n - first);
          MemorySegment.copy(source, ValueLayout.JAVA_BYTE, first, part, 0, count);
          for (int i = 0; i < count; i++) {
            target[first + i] = OF_E4M3[part[i] & 0xFF];
          }
        }
      }
      case NVFP4 -> {
        byte[] part = new byte[Math.min(n / 2, PART)];
        int count;
        for (int first = 0; first < n / 2; first += count) {
          count = Math.min(PART, n / 2 - first);
          MemorySegment.copy(source, ValueLayout.JAVA_BYTE, first, part, 0, count);
          for (int i = 0; i < count; i++) {
            target[2 * (first + i)] = OF_E2M1[part[i] & 15];
            target[2 * (first + i) + 1] = OF_E2M1[part[i] >>> 4 & 15];
          }
        }
      }
      default -> {
        for (int i = 0; i < n; i++) {
          target[i] = get(source, dtype, i);
        }
      }
    }
  }

  /** Element {@code i} of memory of a floating-point type; exact. */
  static float get(MemorySegment source, DType dtype, long i) {
    return switch (dtype) {
      case BF16 -> bf16ToFloat(source.get(ValueLayout.JAVA_SHORT_UNALIGNED, 2 * i));
      case FP16 -> fp16ToFloat(source.get(ValueLayout.JAVA_SHORT_UNALIGNED, 2 * i));
      case FP32 -> source.get(ValueLayout.JAVA_FLOAT_UNALIGNED, 4 * i);
      case FP8_E4M3 -> e4m3ToFloat(source.get(ValueLayout.JAVA_BYTE, i));
      case NVFP4 -> e2m1ToFloat(source.get(ValueLayout.JAVA_BYTE, i / 2) >> 4 * (i & 1));
      case UE8M0 -> ue8m0ToFloat(source.get(ValueLayout.JAVA_BYTE, i));
      case INT32, INT64, UINT8 -> throw new AssertionError(dtype);
    };
  }

  /**
   * Rounds all of {@code source} to {@code dtype}.
   *
   * @param dtype BF16, FP16, FP32, FP8_E4M3 or NVFP4 (an even number of values)
   * @param target receives the elements; writable, at least as long as they are
   * @throws InvalidArgumentException if the type is another one or {@code target} is too short
   */
  public static void fromFloats(float[] source, DType dtype, MemorySegment target) {
    if (!dtype.floating() || dtype == DType.UE8M0) {
      throw noFloats(dtype, "BF16, FP16, FP32, FP8_E4M3 or NVFP4");
    }
    requireLength("target", target, dtype, source.length);
    int n = source.length;
    switch (dtype) {
      case BF16, FP16 -> {
        short[] part = new short[Math.min(n, PART)];
        int count;
        for (int first = 0; first < n; first += count) {
          count = Math.min(PART, n - first);
          if (dtype == DType.BF16) {
            for (int i = 0; i < count; i++) {
              part[i] = floatToBf16(source[first + i]);
            }
          } else {
            for (int i = 0; i < count; i++) {
              part[i] = floatToFp16(source[first + i]);
            }
          }
          MemorySegment.copy(part, 0, target, SHORTS, 2L * first, count);
        }
      }
      case FP8_E4M3 -> {
        byte[] part = new byte[Math.min(n, PART)];
        int count;
        for (int first = 0; first < n; first += count) {
          count = Math.min(PART, n - first);
          for (int i = 0; i < count; i++) {
            part[i] = floatToE4m3(source[first + i]);
          }
          MemorySegment.copy(part, 0, target, ValueLayout.JAVA_BYTE, first, count);
        }
      }
      case NVFP4 -> {
        for (int i = 0; i < n; i += 2) {
          int pair = floatToE2m1(source[i + 1]) << 4 | floatToE2m1(source[i]);
          target.set(ValueLayout.JAVA_BYTE, i / 2, (byte) pair);
        }
      }
      default -> MemorySegment.copy(source, 0, target, ValueLayout.JAVA_FLOAT_UNALIGNED, 0, n);
    }
  }

  private static void requireLength(String name, MemorySegment memory, DType dtype, int count) {
    long bytes = dtype.bytes(count);
    if (memory.byteSize() < bytes) {
      throw new InvalidArgumentException(
          ErrorCode.TENSOR_MEMORY,
          name,
          memory.byteSize() + " bytes",
          "at least " + bytes + " bytes for " + count + " elements of " + dtype,
          "pass a segment that holds all elements");
    }
  }

  private static InvalidArgumentException noFloats(DType dtype, String allowed) {
    return new InvalidArgumentException(
        ErrorCode.TENSOR_DTYPE, "dtype", dtype.name(), allowed, "convert elements of these types");
  }
}
