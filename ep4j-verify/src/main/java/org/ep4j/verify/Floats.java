package org.ep4j.verify;

import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import org.ep4j.error.ErrorCode;
import org.ep4j.error.InvalidArgumentException;
import org.ep4j.tensor.DType;

/** Widening and rounding of the summable types, one element at a time. */
final class Floats {
  private static final short NAN16 = 0x7FFF;
  private static final int NAN32 = 0x7FFF_FFFF;

  private Floats() {}

  static float bf16(short bits) {
    return Float.intBitsToFloat(bits << 16);
  }

  /** Element {@code i} of a BF16 row. */
  static float bf16(MemorySegment row, int i) {
    return bf16(row.get(ValueLayout.JAVA_SHORT_UNALIGNED, 2L * i));
  }

  /** Nearest BF16, ties to even; every NaN becomes the same one. */
  static short toBf16(float value) {
    if (Float.isNaN(value)) {
      return NAN16;
    }
    int bits = Float.floatToRawIntBits(value);
    int odd = bits >>> 16 & 1;
    return (short) (bits + 0x7FFF + odd >>> 16);
  }

  private static short toFp16(float value) {
    return Float.isNaN(value) ? NAN16 : Float.floatToFloat16(value);
  }

  private static float toFp32(float value) {
    return Float.isNaN(value) ? Float.intBitsToFloat(NAN32) : value;
  }

  /** Rounds every element to {@code dtype} and back. */
  static void round(float[] values, DType dtype) {
    for (int i = 0; i < values.length; i++) {
      values[i] =
          switch (dtype) {
            case BF16 -> bf16(toBf16(values[i]));
            case FP16 -> Float.float16ToFloat(toFp16(values[i]));
            default -> values[i];
          };
    }
  }

  /** sum[i] += row[i]. */
  static void add(float[] sum, MemorySegment row, DType dtype) {
    int n = sum.length;
    switch (dtype) {
      case BF16 -> {
        for (int i = 0; i < n; i++) {
          sum[i] += bf16(row.get(ValueLayout.JAVA_SHORT_UNALIGNED, 2L * i));
        }
      }
      case FP16 -> {
        for (int i = 0; i < n; i++) {
          sum[i] += Float.float16ToFloat(row.get(ValueLayout.JAVA_SHORT_UNALIGNED, 2L * i));
        }
      }
      case FP32 -> {
        for (int i = 0; i < n; i++) {
          sum[i] += row.get(ValueLayout.JAVA_FLOAT_UNALIGNED, 4L * i);
        }
      }
      default -> throw notSummed(dtype);
    }
  }

  /** sum[i] += row[i] * weight, the product rounded before it is added. */
  static void addProducts(float[] sum, MemorySegment row, float weight, DType dtype) {
    float[] products = new float[sum.length];
    add(products, row, dtype); // turns -0 into +0: neither changes a sum that began at +0
    for (int i = 0; i < products.length; i++) {
      products[i] *= weight;
    }
    add(sum, products);
  }

  /** sum[i] += row[i]. */
  static void add(float[] sum, float[] row) {
    for (int i = 0; i < sum.length; i++) {
      sum[i] += row[i];
    }
  }

  /** sum[i] = fma(row[i], weight, sum[i]) for a BF16 row. */
  static void addWeighted(float[] sum, MemorySegment row, float weight) {
    for (int i = 0; i < sum.length; i++) {
      sum[i] = Math.fma(bf16(row.get(ValueLayout.JAVA_SHORT_UNALIGNED, 2L * i)), weight, sum[i]);
    }
  }

  /** sum[i] = fma(row[i], weight, sum[i]). */
  static void addWeighted(float[] sum, MemorySegment row, float weight, DType dtype) {
    float[] values = new float[sum.length];
    add(values, row, dtype); // turns -0 into +0: neither changes a sum that began at +0
    for (int i = 0; i < values.length; i++) {
      sum[i] = Math.fma(values[i], weight, sum[i]);
    }
  }

  /** row = sum, rounded once. */
  static void store(float[] sum, MemorySegment row, DType dtype) {
    int n = sum.length;
    switch (dtype) {
      case BF16 -> {
        for (int i = 0; i < n; i++) {
          row.set(ValueLayout.JAVA_SHORT_UNALIGNED, 2L * i, toBf16(sum[i]));
        }
      }
      case FP16 -> {
        for (int i = 0; i < n; i++) {
          row.set(ValueLayout.JAVA_SHORT_UNALIGNED, 2L * i, toFp16(sum[i]));
        }
      }
      case FP32 -> {
        for (int i = 0; i < n; i++) {
          row.set(ValueLayout.JAVA_FLOAT_UNALIGNED, 4L * i, toFp32(sum[i]));
        }
      }
      default -> throw notSummed(dtype);
    }
  }

  private static InvalidArgumentException notSummed(DType dtype) {
    return new InvalidArgumentException(
        ErrorCode.TYPE_NOT_SUMMED,
        "dtype",
        dtype.name(),
        "BF16, FP16 or FP32",
        "sum rows of these types");
  }
}
