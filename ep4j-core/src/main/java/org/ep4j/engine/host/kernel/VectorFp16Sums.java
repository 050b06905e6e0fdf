package org.ep4j.engine.host.kernel;

import static jdk.incubator.vector.VectorOperators.GT;
import static jdk.incubator.vector.VectorOperators.LSHL;
import static jdk.incubator.vector.VectorOperators.LSHR;
import static org.ep4j.engine.host.kernel.VectorKernels.FLOAT;
import static org.ep4j.engine.host.kernel.VectorKernels.FLOATS;
import static org.ep4j.engine.host.kernel.VectorKernels.INT;
import static org.ep4j.engine.host.kernel.VectorKernels.INTS;
import static org.ep4j.engine.host.kernel.VectorKernels.MEMORY;
import static org.ep4j.engine.host.kernel.VectorKernels.ORDER;

import java.util.Arrays;
import jdk.incubator.vector.FloatVector;
import jdk.incubator.vector.IntVector;
import org.ep4j.tensor.DType;

/**
 * Sums of binary16 rows: even and odd elements of a vector of pairs, each in float32. The Vector
 * API of JDK 25 has no binary16, so both conversions work on bits. Their operations exceed what C2
 * inlines into one method. So a row is summed in blocks: one method leaves the float32 sums of a
 * block in memory (the even elements, then the odd ones), another converts them.
 *
 * <ul>
 *   <li>Widening rebiases the exponent, twice for infinities and NaN. The result of a subnormal
 *       {@code m} is {@code (2^-14 + m 2^-24) - 2^-14}, which never touches a float32 subnormal.
 *       The same formula gives more than the value of a normal number, and rebiasing gives more
 *       than that of a subnormal one: the value is the lesser result.
 *   <li>Rounding adds a multiple of the value's power of two, such that the last bit of the sum is
 *       the last one of binary16.
 * </ul>
 */
final class VectorFp16Sums {
  /** Elements of a block: both arrays of a thread fit into its L1 cache. */
  private static final int BLOCK = 1024;

  private static final int LANES = INT.length();

  /** 112 = 127 - 15, the difference of the biases, as an exponent of float32. */
  private static final int REBIAS = 112 << 23;

  private static final int REBIAS_OF_DOUBLE = 113 << 23;
  private static final int MAGNITUDE = 0x7FFF << 13;
  private static final int LARGEST = 0x7BFF << 13;
  private static final int SIGN = 0x80000000;
  private static final float SMALLEST = 0x1p-14f;

  private static final int SMALLEST_BITS = 113 << 23; // 2^-14
  private static final int INFINITY = 0x7F800000;

  /** A power of two that is infinite in binary16; 2^14 times that is finite in float32. */
  private static final int LARGEST_POWER = 239 << 23; // 2^112

  /**
   * Times the power of two of a value: the sum of both has the last bit of binary16, whatever the
   * sign of the value.
   */
  private static final float ROUNDING = 0x1.8p13f;

  private static final float MINUS_ROUNDING = -0x1.8p13f;

  /** Makes 2^16 and more infinite, as in binary16; {@link #SCALE_BACK} undoes it. */
  private static final float SCALE_TO_INFINITY = 0x1p112f;

  private static final float SCALE_BACK = 0x1p-112f;

  private static final int FLOAT_MAGNITUDE = 0x7FFFFFFF;
  private static final int OVERFLOW = 143 << 23; // 2^16
  private static final int NAN = Fp16.NAN << 16;

  /**
   * As {@link #ROUNDING}, of magnitudes. The lower 16 bits of the sum then are those of the result
   * except its exponent: 15 = -113 modulo 64 replaces the smallest exponent.
   */
  private static final float ENCODING = 0x1p13f + 15;

  /** Sums of a group of rows, and of the groups. */
  private record Scratch(float[] part, float[] sum) {}

  private static final ThreadLocal<Scratch> SCRATCH =
      ThreadLocal.withInitial(() -> new Scratch(new float[BLOCK], new float[BLOCK]));

  private VectorFp16Sums() {}

  static void rows(long[] rows, int count, long out, int elements) {
    float[] sum = SCRATCH.get().sum();
    int whole = wholeVectors(elements);
    for (int at = 0; at < whole; at += BLOCK) {
      int block = Math.min(BLOCK, whole - at);
      sum(rows, 0, count, 2L * at, block, sum);
      narrow(sum, block, out + 2L * at);
    }
    PlainSums.fp16Rows(rows, count, out, whole, elements);
  }

  /** Fused multiply-adds of rows and their weights. */
  static void weightedRows(long[] rows, float[] weights, int count, long out, int elements) {
    float[] sum = SCRATCH.get().sum();
    int whole = wholeVectors(elements);
    for (int at = 0; at < whole; at += BLOCK) {
      int block = Math.min(BLOCK, whole - at);
      fusedSum(rows, weights, count, 2L * at, block, sum);
      narrow(sum, block, out + 2L * at);
    }
    PlainSums.weighted(DType.FP16, rows, weights, count, out, whole, elements);
  }

  static void groups(
      long[] rows, int[] groupEnd, int groups, boolean rounded, long out, int elements) {
    Scratch scratch = SCRATCH.get();
    int whole = wholeVectors(elements);
    for (int at = 0; at < whole; at += BLOCK) {
      int block = Math.min(BLOCK, whole - at);
      Arrays.fill(scratch.sum(), 0);
      int from = 0;
      for (int g = 0; g < groups; g++) {
        sum(rows, from, groupEnd[g], 2L * at, block, scratch.part());
        add(scratch, block, rounded);
        from = groupEnd[g];
      }
      narrow(scratch.sum(), block, out + 2L * at);
    }
    PlainSums.groups(DType.FP16, rows, groupEnd, groups, rounded, out, whole, elements);
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
    Scratch scratch = SCRATCH.get();
    int whole = wholeVectors(elements);
    for (int at = 0; at < whole; at += BLOCK) {
      int block = Math.min(BLOCK, whole - at);
      Arrays.fill(scratch.sum(), 0);
      int from = 0;
      for (int g = 0; g < groups; g++) {
        scaledSum(rows, weights, from, groupEnd[g], 2L * at, block, scratch.part());
        add(scratch, block, rounded);
        from = groupEnd[g];
      }
      narrow(scratch.sum(), block, out + 2L * at);
    }
    PlainSums.scaledGroups(
        DType.FP16, rows, weights, groupEnd, groups, rounded, out, whole, elements);
  }

  /** Elements in whole vectors of pairs. */
  private static int wholeVectors(int elements) {
    return elements - elements % (2 * LANES);
  }

  private static void add(Scratch scratch, int block, boolean rounded) {
    if (rounded) {
      addRounded(scratch.part(), block, scratch.sum());
    } else {
      addExact(scratch.part(), block, scratch.sum());
    }
  }

  /** Sums of a block of rows {@code from} to {@code to}; {@code offset} is that of the block. */
  private static void sum(long[] rows, int from, int to, long offset, int block, float[] sums) {
    IntVector rebias = IntVector.broadcast(INT, REBIAS);
    IntVector rebiasOfDouble = IntVector.broadcast(INT, REBIAS_OF_DOUBLE);
    IntVector magnitudeMask = IntVector.broadcast(INT, MAGNITUDE);
    IntVector largest = IntVector.broadcast(INT, LARGEST);
    IntVector sign = IntVector.broadcast(INT, SIGN);
    FloatVector smallest = FloatVector.broadcast(FLOAT, SMALLEST);
    for (int i = 0; i < block / 2; i += LANES) {
      FloatVector even = FloatVector.zero(FLOAT);
      FloatVector odd = FloatVector.zero(FLOAT);
      for (int r = from; r < to; r++) {
        IntVector pair =
            INTS.cast(IntVector.fromMemorySegment(INT, MEMORY, rows[r] + offset + 4L * i, ORDER));
        IntVector code = pair.lanewise(LSHL, 16);
        for (int half = 0; half < 2; half++) { // even, odd
          IntVector magnitude = INTS.cast(code).lanewise(LSHR, 3).and(magnitudeMask);
          FloatVector scaled =
              FLOATS.cast(magnitude.add(rebiasOfDouble).reinterpretAsFloats()).sub(smallest);
          IntVector bits =
              magnitude
                  .add(rebias)
                  .min(scaled.reinterpretAsInts())
                  .add(rebias, magnitude.compare(GT, largest))
                  .or(INTS.cast(code).and(sign));
          FloatVector sum = FLOATS.cast(bits.reinterpretAsFloats()).add(even);
          even = odd;
          odd = sum;
          code = pair;
        }
      }
      FLOATS.cast(even).intoArray(sums, i);
      FLOATS.cast(odd).intoArray(sums, block / 2 + i);
    }
  }

  private static void fusedSum(
      long[] rows, float[] weights, int count, long offset, int block, float[] sums) {
    IntVector rebias = IntVector.broadcast(INT, REBIAS);
    IntVector rebiasOfDouble = IntVector.broadcast(INT, REBIAS_OF_DOUBLE);
    IntVector magnitudeMask = IntVector.broadcast(INT, MAGNITUDE);
    IntVector largest = IntVector.broadcast(INT, LARGEST);
    IntVector sign = IntVector.broadcast(INT, SIGN);
    FloatVector smallest = FloatVector.broadcast(FLOAT, SMALLEST);
    for (int i = 0; i < block / 2; i += LANES) {
      FloatVector even = FloatVector.zero(FLOAT);
      FloatVector odd = FloatVector.zero(FLOAT);
      for (int r = 0; r < count; r++) {
        IntVector pair =
            INTS.cast(IntVector.fromMemorySegment(INT, MEMORY, rows[r] + offset + 4L * i, ORDER));
        FloatVector w = FloatVector.broadcast(FLOAT, weights[r]);
        IntVector code = pair.lanewise(LSHL, 16);
        for (int half = 0; half < 2; half++) { // even, odd
          IntVector magnitude = INTS.cast(code).lanewise(LSHR, 3).and(magnitudeMask);
          FloatVector scaled =
              FLOATS.cast(magnitude.add(rebiasOfDouble).reinterpretAsFloats()).sub(smallest);
          IntVector bits =
              magnitude
                  .add(rebias)
                  .min(scaled.reinterpretAsInts())
                  .add(rebias, magnitude.compare(GT, largest))
                  .or(INTS.cast(code).and(sign));
          FloatVector sum = FLOATS.cast(bits.reinterpretAsFloats()).fma(w, even);
          even = odd;
          odd = sum;
          code = pair;
        }
      }
      FLOATS.cast(even).intoArray(sums, i);
      FLOATS.cast(odd).intoArray(sums, block / 2 + i);
    }
  }

  /** Products that are rounded before they are added, unlike those of {@link #fusedSum}. */
  private static void scaledSum(
      long[] rows, float[] weights, int from, int to, long offset, int block, float[] sums) {
    IntVector rebias = IntVector.broadcast(INT, REBIAS);
    IntVector rebiasOfDouble = IntVector.broadcast(INT, REBIAS_OF_DOUBLE);
    IntVector magnitudeMask = IntVector.broadcast(INT, MAGNITUDE);
    IntVector largest = IntVector.broadcast(INT, LARGEST);
    IntVector sign = IntVector.broadcast(INT, SIGN);
    FloatVector smallest = FloatVector.broadcast(FLOAT, SMALLEST);
    for (int i = 0; i < block / 2; i += LANES) {
      FloatVector even = FloatVector.zero(FLOAT);
      FloatVector odd = FloatVector.zero(FLOAT);
      for (int r = from; r < to; r++) {
        IntVector pair =
            INTS.cast(IntVector.fromMemorySegment(INT, MEMORY, rows[r] + offset + 4L * i, ORDER));
        FloatVector w = FloatVector.broadcast(FLOAT, weights[r]);
        IntVector code = pair.lanewise(LSHL, 16);
        for (int half = 0; half < 2; half++) { // even, odd
          IntVector magnitude = INTS.cast(code).lanewise(LSHR, 3).and(magnitudeMask);
          FloatVector scaled =
              FLOATS.cast(magnitude.add(rebiasOfDouble).reinterpretAsFloats()).sub(smallest);
          IntVector bits =
              magnitude
                  .add(rebias)
                  .min(scaled.reinterpretAsInts())
                  .add(rebias, magnitude.compare(GT, largest))
                  .or(INTS.cast(code).and(sign));
          FloatVector sum = FLOATS.cast(bits.reinterpretAsFloats()).mul(w).add(even);
          even = odd;
          odd = sum;
          code = pair;
        }
      }
      FLOATS.cast(even).intoArray(sums, i);
      FLOATS.cast(odd).intoArray(sums, block / 2 + i);
    }
  }

  private static void addExact(float[] part, int block, float[] sums) {
    for (int i = 0; i < block; i += LANES) {
      FLOATS
          .cast(FloatVector.fromArray(FLOAT, part, i))
          .add(FloatVector.fromArray(FLOAT, sums, i))
          .intoArray(sums, i);
    }
  }

  /** Adds {@code part} rounded to binary16; a NaN stays one. */
  private static void addRounded(float[] part, int block, float[] sums) {
    IntVector smallestBits = IntVector.broadcast(INT, SMALLEST_BITS);
    IntVector infinity = IntVector.broadcast(INT, INFINITY);
    IntVector largestPower = IntVector.broadcast(INT, LARGEST_POWER);
    FloatVector rounding = FloatVector.broadcast(FLOAT, ROUNDING);
    FloatVector minusRounding = FloatVector.broadcast(FLOAT, MINUS_ROUNDING);
    FloatVector scaleToInfinity = FloatVector.broadcast(FLOAT, SCALE_TO_INFINITY);
    FloatVector scaleBack = FloatVector.broadcast(FLOAT, SCALE_BACK);
    for (int i = 0; i < block; i += LANES) {
      FloatVector value = FLOATS.cast(FloatVector.fromArray(FLOAT, part, i));
      IntVector bits = INTS.cast(value.reinterpretAsInts());
      FloatVector power =
          FLOATS.cast(bits.and(infinity).max(smallestBits).min(largestPower).reinterpretAsFloats());
      FloatVector kept = power.fma(minusRounding, power.fma(rounding, value));
      kept.mul(scaleToInfinity)
          .mul(scaleBack)
          .add(FloatVector.fromArray(FLOAT, sums, i))
          .intoArray(sums, i);
    }
  }

  private static void narrow(float[] sums, int block, long out) {
    IntVector sign = IntVector.broadcast(INT, SIGN);
    IntVector smallestBits = IntVector.broadcast(INT, SMALLEST_BITS);
    IntVector infinity = IntVector.broadcast(INT, INFINITY);
    IntVector floatMagnitude = IntVector.broadcast(INT, FLOAT_MAGNITUDE);
    IntVector overflow = IntVector.broadcast(INT, OVERFLOW);
    IntVector nan = IntVector.broadcast(INT, NAN);
    FloatVector encoding = FloatVector.broadcast(FLOAT, ENCODING);
    for (int i = 0; i < block / 2; i += LANES) {
      IntVector result = IntVector.zero(INT);
      for (int half = 0; half < 2; half++) { // even, odd
        FloatVector sum = FLOATS.cast(FloatVector.fromArray(FLOAT, sums, i + half * (block / 2)));
        IntVector bits = INTS.cast(sum.reinterpretAsInts());
        IntVector magnitude = bits.and(floatMagnitude);
        IntVector value = magnitude.min(overflow);
        IntVector power = value.and(infinity).max(smallestBits);
        FloatVector rounded =
            FLOATS.cast(power.reinterpretAsFloats()).fma(encoding, value.reinterpretAsFloats());
        IntVector code =
            INTS.cast(rounded.reinterpretAsInts())
                .lanewise(LSHL, 16)
                .add(power.lanewise(LSHL, 3))
                .or(bits.and(sign))
                .blend(nan, magnitude.compare(GT, infinity));
        result = INTS.cast(result).lanewise(LSHR, 16).or(code);
      }
      INTS.cast(result).intoMemorySegment(MEMORY, out + 4L * i, ORDER);
    }
  }
}
