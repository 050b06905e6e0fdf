package org.ep4j.engine.host.kernel;

import static jdk.incubator.vector.VectorOperators.LSHL;
import static jdk.incubator.vector.VectorOperators.LSHR;
import static jdk.incubator.vector.VectorOperators.NE;
import static org.ep4j.engine.host.kernel.VectorKernels.BELOW_HALF;
import static org.ep4j.engine.host.kernel.VectorKernels.BYTES;
import static org.ep4j.engine.host.kernel.VectorKernels.FLOAT;
import static org.ep4j.engine.host.kernel.VectorKernels.FLOATS;
import static org.ep4j.engine.host.kernel.VectorKernels.INT;
import static org.ep4j.engine.host.kernel.VectorKernels.INTS;
import static org.ep4j.engine.host.kernel.VectorKernels.MEMORY;
import static org.ep4j.engine.host.kernel.VectorKernels.NAN;
import static org.ep4j.engine.host.kernel.VectorKernels.ONE;
import static org.ep4j.engine.host.kernel.VectorKernels.ORDER;
import static org.ep4j.engine.host.kernel.VectorKernels.UPPER;

import jdk.incubator.vector.FloatVector;
import jdk.incubator.vector.IntVector;
import org.ep4j.tensor.DType;

/**
 * Weighted sums of bf16 rows, even and odd elements in float32. The methods with a loop return the
 * number of bytes done, whole vectors.
 */
final class VectorBf16WeightedSums {
  private VectorBf16WeightedSums() {}

  static void rows(long[] rows, float[] weights, int count, long out, int elements) {
    int at = fusedRows(rows, weights, count, out, 2 * elements);
    PlainSums.weighted(DType.BF16, rows, weights, count, out, at / 2, elements);
  }

  private static int fusedRows(long[] rows, float[] weights, int count, long out, int bytes) {
    int at = 0;
    for (; at <= bytes - BYTES; at += BYTES) {
      FloatVector even = FloatVector.zero(FLOAT);
      FloatVector odd = FloatVector.zero(FLOAT);
      for (int r = 0; r < count; r++) {
        IntVector a = INTS.cast(IntVector.fromMemorySegment(INT, MEMORY, rows[r] + at, ORDER));
        FloatVector w = FloatVector.broadcast(FLOAT, weights[r]);
        even = FLOATS.cast(a.lanewise(LSHL, 16).reinterpretAsFloats()).fma(w, FLOATS.cast(even));
        odd = FLOATS.cast(a.and(UPPER).reinterpretAsFloats()).fma(w, FLOATS.cast(odd));
      }
      IntVector result = IntVector.zero(INT);
      for (int half = 0; half < 2; half++) { // even, odd
        FloatVector sum = FLOATS.cast(even);
        IntVector bits = INTS.cast(sum.blend(NAN, sum.compare(NE, sum)).reinterpretAsInts());
        bits = bits.add(bits.lanewise(LSHR, 16).and(ONE)).add(BELOW_HALF);
        result = INTS.cast(result).lanewise(LSHR, 16).or(INTS.cast(bits.and(UPPER)));
        even = odd;
      }
      INTS.cast(result).intoMemorySegment(MEMORY, out + at, ORDER);
    }
    return at;
  }

  static void groups(
      long[] rows, float[] weights, int[] groupEnd, int groups, long out, int elements) {
    int at = fusedGroups(rows, weights, groupEnd, groups, out, 2 * elements);
    PlainSums.weightedGroups(rows, weights, groupEnd, groups, out, at / 2, elements);
  }

  private static int fusedGroups(
      long[] rows, float[] weights, int[] groupEnd, int groups, long out, int bytes) {
    int at = 0;
    for (; at <= bytes - BYTES; at += BYTES) {
      FloatVector even = FloatVector.zero(FLOAT);
      FloatVector odd = FloatVector.zero(FLOAT);
      int r = 0;
      for (int g = 0; g < groups; g++) {
        FloatVector evenPart = FloatVector.zero(FLOAT);
        FloatVector oddPart = FloatVector.zero(FLOAT);
        for (int end = groupEnd[g]; r < end; r++) {
          IntVector a = INTS.cast(IntVector.fromMemorySegment(INT, MEMORY, rows[r] + at, ORDER));
          FloatVector w = FloatVector.broadcast(FLOAT, weights[r]);
          evenPart = FLOATS.cast(a.lanewise(LSHL, 16).reinterpretAsFloats()).fma(w, evenPart);
          oddPart = FLOATS.cast(a.and(UPPER).reinterpretAsFloats()).fma(w, oddPart);
        }
        for (int half = 0; half < 2; half++) { // even, odd
          FloatVector part = FLOATS.cast(evenPart);
          IntVector bits = INTS.cast(part.blend(NAN, part.compare(NE, part)).reinterpretAsInts());
          bits = bits.add(bits.lanewise(LSHR, 16).and(ONE)).add(BELOW_HALF).and(UPPER);
          FloatVector sum = FLOATS.cast(bits.reinterpretAsFloats()).add(even);
          evenPart = oddPart;
          even = odd;
          odd = sum;
        }
      }
      IntVector result = IntVector.zero(INT);
      for (int half = 0; half < 2; half++) { // even, odd
        FloatVector sum = FLOATS.cast(even);
        IntVector bits = INTS.cast(sum.blend(NAN, sum.compare(NE, sum)).reinterpretAsInts());
        bits = bits.add(bits.lanewise(LSHR, 16).and(ONE)).add(BELOW_HALF);
        result = INTS.cast(result).lanewise(LSHR, 16).or(INTS.cast(bits.and(UPPER)));
        even = odd;
      }
      INTS.cast(result).intoMemorySegment(MEMORY, out + at, ORDER);
    }
    return at;
  }

  /** Products that are rounded before they are added, unlike those of {@link #groups}. */
  static void scaledGroups(
      long[] rows,
      float[] weights,
      int[] groupEnd,
      int groups,
      boolean rounded,
      long out,
      int elements) {
    int bytes = 2 * elements;
    int at =
        rounded
            ? roundedScaledGroups(rows, weights, groupEnd, groups, out, bytes)
            : exactScaledGroups(rows, weights, groupEnd, groups, out, bytes);
    PlainSums.scaledGroups(
        DType.BF16, rows, weights, groupEnd, groups, rounded, out, at / 2, elements);
  }

  private static int roundedScaledGroups(
      long[] rows, float[] weights, int[] groupEnd, int groups, long out, int bytes) {
    int at = 0;
    for (; at <= bytes - BYTES; at += BYTES) {
      FloatVector even = FloatVector.zero(FLOAT);
      FloatVector odd = FloatVector.zero(FLOAT);
      int r = 0;
      for (int g = 0; g < groups; g++) {
        FloatVector evenPart = FloatVector.zero(FLOAT);
        FloatVector oddPart = FloatVector.zero(FLOAT);
        for (int end = groupEnd[g]; r < end; r++) {
          IntVector a = INTS.cast(IntVector.fromMemorySegment(INT, MEMORY, rows[r] + at, ORDER));
          FloatVector w = FloatVector.broadcast(FLOAT, weights[r]);
          evenPart = FLOATS.cast(a.lanewise(LSHL, 16).reinterpretAsFloats()).mul(w).add(evenPart);
          oddPart = FLOATS.cast(a.and(UPPER).reinterpretAsFloats()).mul(w).add(oddPart);
        }
        for (int half = 0; half < 2; half++) { // even, odd
          FloatVector part = FLOATS.cast(evenPart);
          IntVector bits = INTS.cast(part.blend(NAN, part.compare(NE, part)).reinterpretAsInts());
          bits = bits.add(bits.lanewise(LSHR, 16).and(ONE)).add(BELOW_HALF).and(UPPER);
          FloatVector sum = FLOATS.cast(bits.reinterpretAsFloats()).add(even);
          evenPart = oddPart;
          even = odd;
          odd = sum;
        }
      }
      IntVector result = IntVector.zero(INT);
      for (int half = 0; half < 2; half++) { // even, odd
        FloatVector sum = FLOATS.cast(even);
        IntVector bits = INTS.cast(sum.blend(NAN, sum.compare(NE, sum)).reinterpretAsInts());
        bits = bits.add(bits.lanewise(LSHR, 16).and(ONE)).add(BELOW_HALF);
        result = INTS.cast(result).lanewise(LSHR, 16).or(INTS.cast(bits.and(UPPER)));
        even = odd;
      }
      INTS.cast(result).intoMemorySegment(MEMORY, out + at, ORDER);
    }
    return at;
  }

  private static int exactScaledGroups(
      long[] rows, float[] weights, int[] groupEnd, int groups, long out, int bytes) {
    int at = 0;
    for (; at <= bytes - BYTES; at += BYTES) {
      FloatVector even = FloatVector.zero(FLOAT);
      FloatVector odd = FloatVector.zero(FLOAT);
      int r = 0;
      for (int g = 0; g < groups; g++) {
        FloatVector evenPart = FloatVector.zero(FLOAT);
        FloatVector oddPart = FloatVector.zero(FLOAT);
        for (int end = groupEnd[g]; r < end; r++) {
          IntVector a = INTS.cast(IntVector.fromMemorySegment(INT, MEMORY, rows[r] + at, ORDER));
          FloatVector w = FloatVector.broadcast(FLOAT, weights[r]);
          evenPart = FLOATS.cast(a.lanewise(LSHL, 16).reinterpretAsFloats()).mul(w).add(evenPart);
          oddPart = FLOATS.cast(a.and(UPPER).reinterpretAsFloats()).mul(w).add(oddPart);
        }
        even = FLOATS.cast(evenPart).add(even);
        odd = FLOATS.cast(oddPart).add(odd);
      }
      IntVector result = IntVector.zero(INT);
      for (int half = 0; half < 2; half++) { // even, odd
        FloatVector sum = FLOATS.cast(even);
        IntVector bits = INTS.cast(sum.blend(NAN, sum.compare(NE, sum)).reinterpretAsInts());
        bits = bits.add(bits.lanewise(LSHR, 16).and(ONE)).add(BELOW_HALF);
        result = INTS.cast(result).lanewise(LSHR, 16).or(INTS.cast(bits.and(UPPER)));
        even = odd;
      }
      INTS.cast(result).intoMemorySegment(MEMORY, out + at, ORDER);
    }
    return at;
  }
}
