package org.ep4j.verify;

import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.util.Arrays;
import org.ep4j.tensor.ScaleKind;

/**
 * Quantised row formats by their definitions: finds the nearest entry in the table of all values of
 * the type.
 */
final class Quantisers {
  private static final int FP8_BLOCK = 128;
  private static final int NVFP4_BLOCK = 16;
  private static final byte FP8_NAN = 0x7F;
  private static final float ONE_448TH = 1f / 448f;
  private static final float ONE_SIXTH = 1f / 6f;

  /** Magnitudes of E4M3 by code: 8 subnormals of 2^-9, then 15 binades of 8 without the NaN. */
  private static final float[] E4M3 = new float[127];

  private static final float[] E2M1 = {0, 0.5f, 1, 1.5f, 2, 3, 4, 6};

  static {
    for (int code = 0; code < E4M3.length; code++) {
      int exponent = code / 8;
      int mantissa = code % 8;
      E4M3[code] =
          exponent == 0
              ? mantissa * Math.scalb(1f, -9)
              : (8 + mantissa) * Math.scalb(1f, exponent - 10);
    }
  }

  private Quantisers() {}

  /**
   * Quantises a BF16 row to FP8 E4M3.
   *
   * @param values receives one byte per element
   * @param scales receives the scales of the blocks: float32, or exponent bytes with UE8M0
   */
  static void toFp8(MemorySegment row, ScaleKind kind, MemorySegment values, MemorySegment scales) {
    int blocks = (int) values.byteSize() / FP8_BLOCK;
    for (int b = 0; b < blocks; b++) {
      float amax = Math.max(1e-4f, largest(row, b * FP8_BLOCK, FP8_BLOCK));
      float scale = amax * ONE_448TH;
      float multiplier = 448f / amax;
      if (kind != ScaleKind.FLOAT32) {
        int exponent = ceilingOfLog2(scale);
        scale = power(exponent);
        multiplier = power(-exponent);
      }
      if (Float.isInfinite(amax)) {
        scale = amax;
        multiplier = 0;
      }
      if (kind == ScaleKind.UE8M0) {
        int biased = Float.floatToRawIntBits(scale) >>> 23;
        scales.set(ValueLayout.JAVA_BYTE, b, (byte) biased);
      } else {
        scales.set(ValueLayout.JAVA_FLOAT_UNALIGNED, 4L * b, scale);
      }
      for (int i = b * FP8_BLOCK; i < (b + 1) * FP8_BLOCK; i++) {
        values.set(ValueLayout.JAVA_BYTE, i, toE4M3(Floats.bf16(row, i) * multiplier));
      }
    }
  }

  /**
   * Quantises a BF16 row to NVFP4.
   *
   * @param values receives two elements per byte, the even one in the low nibble
   * @param scales receives an E4M3 scale for every 16 elements
   */
  static void toNvFp4(
      MemorySegment row, float globalScale, MemorySegment values, MemorySegment scales) {
    int blocks = (int) scales.byteSize();
    for (int b = 0; b < blocks; b++) {
      float amax = largest(row, b * NVFP4_BLOCK, NVFP4_BLOCK);
      byte scale = toE4M3(globalScale * (amax * ONE_SIXTH));
      scales.set(ValueLayout.JAVA_BYTE, b, scale);
      float multiplier = scale == 0 ? 0 : globalScale / e4m3(scale);
      for (int i = b * NVFP4_BLOCK; i < (b + 1) * NVFP4_BLOCK; i += 2) {
        int even = toE2M1(Floats.bf16(row, i) * multiplier);
        int odd = toE2M1(Floats.bf16(row, i + 1) * multiplier);
        values.set(ValueLayout.JAVA_BYTE, i / 2, (byte) (odd << 4 | even));
      }
    }
  }

  /** The largest magnitude except NaN, 0 if there is none. */
  private static float largest(MemorySegment row, int from, int count) {
    float largest = 0;
    for (int i = from; i < from + count; i++) {
      float magnitude = Math.abs(Floats.bf16(row, i));
      largest = magnitude > largest ? magnitude : largest;
    }
    return largest;
  }

  /** The least integer n with 2^n >= value, for a positive normal number. */
  private static int ceilingOfLog2(float value) {
    int n = Math.getExponent(value);
    return power(n) < value ? n + 1 : n;
  }

  private static float power(int exponent) {
    return Math.scalb(1f, exponent);
  }

  static byte toE4M3(float value) {
    if (Float.isNaN(value)) {
      return FP8_NAN;
    }
    return (byte) (nearest(E4M3, Math.abs(value)) | (negative(value) ? 0x80 : 0));
  }

  private static float e4m3(byte code) {
    float magnitude = E4M3[code & 0x7F];
    return code < 0 ? -magnitude : magnitude;
  }

  static int toE2M1(float value) {
    if (Float.isNaN(value)) {
      return E2M1.length - 1;
    }
    return nearest(E2M1, Math.abs(value)) | (negative(value) ? 8 : 0);
  }

  private static boolean negative(float value) {
    return Float.floatToRawIntBits(value) < 0;
  }

  /** Code of the nearest value, ties to the even code; the last code for all larger values. */
  private static int nearest(float[] table, float magnitude) {
    int found = Arrays.binarySearch(table, magnitude);
    if (found >= 0) {
      return found;
    }
    int above = -found - 1;
    if (above == table.length) {
      return above - 1;
    }
    int below = above - 1;
    // Exact: doubles have many more digits than the distance of two neighbours needs.
    double middle = ((double) table[below] + table[above]) / 2;
    if (magnitude == middle) {
      return below % 2 == 0 ? below : above;
    }
    return magnitude < middle ? below : above;
  }
}
