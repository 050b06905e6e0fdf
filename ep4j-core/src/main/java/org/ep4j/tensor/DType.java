package org.ep4j.tensor;

import org.ep4j.error.ErrorCode;
import org.ep4j.error.InvalidArgumentException;

/**
 * Element types of payloads, scales and indices.
 *
 * <p>All multi-byte types are little-endian. {@link #NVFP4} packs two values per byte with the even
 * element in the low nibble. Shapes count elements, never bytes.
 */
public enum DType {
  /** bfloat16: the upper half of an IEEE binary32. */
  BF16(16),
  /** IEEE binary16. */
  FP16(16),
  /** IEEE binary32. */
  FP32(32),
  /**
   * 8-bit float with 4 exponent and 3 mantissa bits, finite only, NaN = 0x7f, largest value 448.
   */
  FP8_E4M3(8),
  /** 4-bit float E2M1 (largest value 6), two per byte. */
  NVFP4(4),
  /** 32-bit signed integer; also four packed {@link #UE8M0} exponents. */
  INT32(32),
  /** 64-bit signed integer. */
  INT64(64),
  /** 8-bit power-of-two scale: the biased exponent byte of a binary32. */
  UE8M0(8),
  /** Unsigned byte; booleans are 0 or 1. */
  UINT8(8);

  private final int bits;

  DType(int bits) {
    this.bits = bits;
  }

  /** Bits of one element. */
  public int bits() {
    return bits;
  }

  /**
   * Bytes that {@code elements} consecutive elements occupy.
   *
   * @throws InvalidArgumentException if the elements do not fill whole bytes
   */
  public long bytes(long elements) {
    long total = Math.multiplyExact(elements, bits);
    if ((total & 7) != 0) {
      throw new InvalidArgumentException(
          ErrorCode.TENSOR_SHAPE,
          "elements",
          elements + " elements of " + this,
          "a number that fills whole bytes",
          "use an even number");
    }
    return total >>> 3;
  }

  /** Whether elements are floating-point numbers: all types except INT32, INT64 and UINT8. */
  public boolean floating() {
    return this != INT32 && this != INT64 && this != UINT8;
  }

  /** Whether combine can sum rows of this type (BF16, FP16, FP32). */
  public boolean summable() {
    return this == BF16 || this == FP16 || this == FP32;
  }
}
