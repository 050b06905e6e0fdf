package org.ep4j.engine.host.kernel;

import static jdk.incubator.vector.VectorOperators.GT;
import static jdk.incubator.vector.VectorOperators.I2S;
import static jdk.incubator.vector.VectorOperators.LSHL;
import static jdk.incubator.vector.VectorOperators.LSHR;
import static jdk.incubator.vector.VectorOperators.LT;
import static jdk.incubator.vector.VectorOperators.ZERO_EXTEND_S2I;
import static org.ep4j.engine.host.kernel.VectorKernels.FLOAT;
import static org.ep4j.engine.host.kernel.VectorKernels.FLOATS;
import static org.ep4j.engine.host.kernel.VectorKernels.HALF_SHORT;
import static org.ep4j.engine.host.kernel.VectorKernels.HALF_SHORTS;
import static org.ep4j.engine.host.kernel.VectorKernels.INT;
import static org.ep4j.engine.host.kernel.VectorKernels.INTS;
import static org.ep4j.engine.host.kernel.VectorKernels.MEMORY;
import static org.ep4j.engine.host.kernel.VectorKernels.ORDER;

import jdk.incubator.vector.FloatVector;
import jdk.incubator.vector.IntVector;
import jdk.incubator.vector.ShortVector;
import org.ep4j.tensor.DType;

/**
 * Sums of binary16 rows, one element per float32 lane. The Vector API of JDK 25 has no binary16, so
 * both conversions work on bits:
 *
 * <ul>
 *   <li>widening rebiases the exponent (twice for infinities and NaN); subnormals result from
 *       {@code (2^-14 + m 2^-24) - 2^-14}, which never touches a float32 subnormal;
 *   <li>narrowing rounds by adding below the last bit kept; results below {@code 2^-14} are rounded
 *       by adding 0.5, whose last bit is the {@code 2^-24} that counts there.
 * </ul>
 */
final class VectorFp16Sums {
  /** 112 = 127 - 15, the difference of the biases, as an exponent of float32. */
  private static final int REBIAS = 112 << 23;

  private static final int SMALLEST_NORMAL = 113 << 23; // 2^-14
  private static final int HALF = 0x3F000000; // 0.5f
  private static final int INFINITY = 0x7F800000;
  private static final int OVERFLOW = 0x477FF000; // 65520 rounds to infinity
  private static final int STEP = HALF_SHORT.vectorByteSize();

  private VectorFp16Sums() {}

  static void rows(long[] rows, int count, long out, int elements) {
    int bytes = 2 * elements;
    int at = 0;
    for (; at <= bytes - STEP; at += STEP) {
      FloatVector sum = FloatVector.zero(FLOAT);
      for (int r = 0; r < count; r++) {
        IntVector half =
            INTS.cast(
                HALF_SHORTS
                    .cast(ShortVector.fromMemorySegment(HALF_SHORT, MEMORY, rows[r] + at, ORDER))
                    .convertShape(ZERO_EXTEND_S2I, INT, 0));
        IntVector magnitude = half.and(0x7FFF);
        IntVector bits = magnitude.lanewise(LSHL, 13).add(REBIAS);
        bits = bits.blend(bits.add(REBIAS), magnitude.compare(GT, 0x7BFF));
        FloatVector scaled = FLOATS.cast(bits.add(1 << 23).reinterpretAsFloats()).sub(0x1p-14f);
        bits = bits.blend(scaled.reinterpretAsInts(), magnitude.compare(LT, 0x400));
        IntVector sign = half.and(0x8000).lanewise(LSHL, 16);
        sum = FLOATS.cast(sign.or(bits).reinterpretAsFloats()).add(sum);
      }
      IntVector bits = INTS.cast(FLOATS.cast(sum).reinterpretAsInts());
      IntVector magnitude = bits.and(0x7FFFFFFF);
      FloatVector tiny = FLOATS.cast(magnitude.reinterpretAsFloats()).add(0.5f);
      IntVector half =
          magnitude
              .add(magnitude.lanewise(LSHR, 13).and(1))
              .add(0xFFF - REBIAS)
              .lanewise(LSHR, 13)
              .min(0x7C00)
              .blend(
                  INTS.cast(tiny.reinterpretAsInts()).sub(HALF),
                  magnitude.compare(LT, SMALLEST_NORMAL))
              .or(bits.lanewise(LSHR, 16).and(0x8000))
              .blend(Fp16.NAN, magnitude.compare(GT, INFINITY));
      HALF_SHORTS
          .cast(half.convertShape(I2S, HALF_SHORT, 0))
          .intoMemorySegment(MEMORY, out + at, ORDER);
    }
    PlainSums.fp16Rows(rows, count, out, at / 2, elements);
  }

  /** Fused multiply-adds of rows and their weights. */
  static void weightedRows(long[] rows, float[] weights, int count, long out, int elements) {
    int bytes = 2 * elements;
    int at = 0;
    for (; at <= bytes - STEP; at += STEP) {
      FloatVector sum = FloatVector.zero(FLOAT);
      for (int r = 0; r < count; r++) {
        IntVector half =
            INTS.cast(
                HALF_SHORTS
                    .cast(ShortVector.fromMemorySegment(HALF_SHORT, MEMORY, rows[r] + at, ORDER))
                    .convertShape(ZERO_EXTEND_S2I, INT, 0));
        IntVector magnitude = half.and(0x7FFF);
        IntVector bits = magnitude.lanewise(LSHL, 13).add(REBIAS);
        bits = bits.blend(bits.add(REBIAS), magnitude.compare(GT, 0x7BFF));
        FloatVector scaled = FLOATS.cast(bits.add(1 << 23).reinterpretAsFloats()).sub(0x1p-14f);
        bits = bits.blend(scaled.reinterpretAsInts(), magnitude.compare(LT, 0x400));
        IntVector sign = half.and(0x8000).lanewise(LSHL, 16);
        FloatVector w = FloatVector.broadcast(FLOAT, weights[r]);
        sum = FLOATS.cast(sign.or(bits).reinterpretAsFloats()).fma(w, sum);
      }
      IntVector bits = INTS.cast(FLOATS.cast(sum).reinterpretAsInts());
      IntVector magnitude = bits.and(0x7FFFFFFF);
      FloatVector tiny = FLOATS.cast(magnitude.reinterpretAsFloats()).add(0.5f);
      IntVector half =
          magnitude
              .add(magnitude.lanewise(LSHR, 13).and(1))
              .add(0xFFF - REBIAS)
              .lanewise(LSHR, 13)
              .min(0x7C00)
              .blend(
                  INTS.cast(tiny.reinterpretAsInts()).sub(HALF),
                  magnitude.compare(LT, SMALLEST_NORMAL))
              .or(bits.lanewise(LSHR, 16).and(0x8000))
              .blend(Fp16.NAN, magnitude.compare(GT, INFINITY));
      HALF_SHORTS
          .cast(half.convertShape(I2S, HALF_SHORT, 0))
          .intoMemorySegment(MEMORY, out + at, ORDER);
    }
    PlainSums.weighted(DType.FP16, rows, weights, count, out, at / 2, elements);
  }

  static void groups(
      long[] rows, int[] groupEnd, int groups, boolean rounded, long out, int elements) {
    int bytes = 2 * elements;
    int at = 0;
    for (; at <= bytes - STEP; at += STEP) {
      FloatVector sum = FloatVector.zero(FLOAT);
      int r = 0;
      for (int g = 0; g < groups; g++) {
        FloatVector part = FloatVector.zero(FLOAT);
        for (int end = groupEnd[g]; r < end; r++) {
          IntVector half =
              INTS.cast(
                  HALF_SHORTS
                      .cast(ShortVector.fromMemorySegment(HALF_SHORT, MEMORY, rows[r] + at, ORDER))
                      .convertShape(ZERO_EXTEND_S2I, INT, 0));
          IntVector magnitude = half.and(0x7FFF);
          IntVector bits = magnitude.lanewise(LSHL, 13).add(REBIAS);
          bits = bits.blend(bits.add(REBIAS), magnitude.compare(GT, 0x7BFF));
          FloatVector scaled = FLOATS.cast(bits.add(1 << 23).reinterpretAsFloats()).sub(0x1p-14f);
          bits = bits.blend(scaled.reinterpretAsInts(), magnitude.compare(LT, 0x400));
          IntVector sign = half.and(0x8000).lanewise(LSHL, 16);
          part = FLOATS.cast(sign.or(bits).reinterpretAsFloats()).add(part);
        }
        if (rounded) {
          // Adding and subtracting 2^13 times its power of two leaves the 11 bits of binary16.
          IntVector bits = INTS.cast(FLOATS.cast(part).reinterpretAsInts());
          IntVector magnitude = bits.and(0x7FFFFFFF);
          FloatVector power =
              FLOATS.cast(magnitude.max(SMALLEST_NORMAL).and(INFINITY).reinterpretAsFloats());
          FloatVector kept =
              power.fma(FloatVector.broadcast(FLOAT, 0x1p13f), magnitude.reinterpretAsFloats());
          kept = power.fma(FloatVector.broadcast(FLOAT, -0x1p13f), kept);
          part =
              INTS.cast(kept.reinterpretAsInts())
                  .blend(INFINITY, magnitude.compare(GT, OVERFLOW - 1))
                  .blend(Fp32.NAN, magnitude.compare(GT, INFINITY))
                  .or(bits.and(0x80000000))
                  .reinterpretAsFloats();
        }
        sum = FLOATS.cast(part).add(sum);
      }
      IntVector bits = INTS.cast(FLOATS.cast(sum).reinterpretAsInts());
      IntVector magnitude = bits.and(0x7FFFFFFF);
      FloatVector tiny = FLOATS.cast(magnitude.reinterpretAsFloats()).add(0.5f);
      IntVector half =
          magnitude
              .add(magnitude.lanewise(LSHR, 13).and(1))
              .add(0xFFF - REBIAS)
              .lanewise(LSHR, 13)
              .min(0x7C00)
              .blend(
                  INTS.cast(tiny.reinterpretAsInts()).sub(HALF),
                  magnitude.compare(LT, SMALLEST_NORMAL))
              .or(bits.lanewise(LSHR, 16).and(0x8000))
              .blend(Fp16.NAN, magnitude.compare(GT, INFINITY));
      HALF_SHORTS
          .cast(half.convertShape(I2S, HALF_SHORT, 0))
          .intoMemorySegment(MEMORY, out + at, ORDER);
    }
    PlainSums.groups(DType.FP16, rows, groupEnd, groups, rounded, out, at / 2, elements);
  }

  /** As {@link #groups}, of rows times their weights. */
  static void scaledGroups(
      long[] rows,
      float[] weights,
      int[] groupEnd,
      int groups,
      boolean rounded,
      long out,
      int elements) {
    int bytes = 2 * elements;
    int at = 0;
    for (; at <= bytes - STEP; at += STEP) {
      FloatVector sum = FloatVector.zero(FLOAT);
      int r = 0;
      for (int g = 0; g < groups; g++) {
        FloatVector part = FloatVector.zero(FLOAT);
        for (int end = groupEnd[g]; r < end; r++) {
          IntVector half =
              INTS.cast(
                  HALF_SHORTS
                      .cast(ShortVector.fromMemorySegment(HALF_SHORT, MEMORY, rows[r] + at, ORDER))
                      .convertShape(ZERO_EXTEND_S2I, INT, 0));
          IntVector magnitude = half.and(0x7FFF);
          IntVector bits = magnitude.lanewise(LSHL, 13).add(REBIAS);
          bits = bits.blend(bits.add(REBIAS), magnitude.compare(GT, 0x7BFF));
          FloatVector scaled = FLOATS.cast(bits.add(1 << 23).reinterpretAsFloats()).sub(0x1p-14f);
          bits = bits.blend(scaled.reinterpretAsInts(), magnitude.compare(LT, 0x400));
          IntVector sign = half.and(0x8000).lanewise(LSHL, 16);
          FloatVector w = FloatVector.broadcast(FLOAT, weights[r]);
          part = FLOATS.cast(sign.or(bits).reinterpretAsFloats()).mul(w).add(part);
        }
        if (rounded) {
          // Adding and subtracting 2^13 times its power of two leaves the 11 bits of binary16.
          IntVector bits = INTS.cast(FLOATS.cast(part).reinterpretAsInts());
          IntVector magnitude = bits.and(0x7FFFFFFF);
          FloatVector power =
              FLOATS.cast(magnitude.max(SMALLEST_NORMAL).and(INFINITY).reinterpretAsFloats());
          FloatVector kept =
              power.fma(FloatVector.broadcast(FLOAT, 0x1p13f), magnitude.reinterpretAsFloats());
          kept = power.fma(FloatVector.broadcast(FLOAT, -0x1p13f), kept);
          part =
              INTS.cast(kept.reinterpretAsInts())
                  .blend(INFINITY, magnitude.compare(GT, OVERFLOW - 1))
                  .blend(Fp32.NAN, magnitude.compare(GT, INFINITY))
                  .or(bits.and(0x80000000))
                  .reinterpretAsFloats();
        }
        sum = FLOATS.cast(part).add(sum);
      }
      IntVector bits = INTS.cast(FLOATS.cast(sum).reinterpretAsInts());
      IntVector magnitude = bits.and(0x7FFFFFFF);
      FloatVector tiny = FLOATS.cast(magnitude.reinterpretAsFloats()).add(0.5f);
      IntVector half =
          magnitude
              .add(magnitude.lanewise(LSHR, 13).and(1))
              .add(0xFFF - REBIAS)
              .lanewise(LSHR, 13)
              .min(0x7C00)
              .blend(
                  INTS.cast(tiny.reinterpretAsInts()).sub(HALF),
                  magnitude.compare(LT, SMALLEST_NORMAL))
              .or(bits.lanewise(LSHR, 16).and(0x8000))
              .blend(Fp16.NAN, magnitude.compare(GT, INFINITY));
      HALF_SHORTS
          .cast(half.convertShape(I2S, HALF_SHORT, 0))
          .intoMemorySegment(MEMORY, out + at, ORDER);
    }
    PlainSums.scaledGroups(
        DType.FP16, rows, weights, groupEnd, groups, rounded, out, at / 2, elements);
  }
}
