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
 * Sums of bf16 rows: even and odd elements of a vector of pairs, each in float32. The methods with
 * a loop return the number of bytes done, whole vectors.
 */
final class VectorBf16Sums {
  private VectorBf16Sums() {}

  static void rows(long[] rows, int count, long out, int elements) {
    int bytes = 2 * elements;
    int at =
        switch (count) {
          case 3 -> three(rows[0], rows[1], rows[2], out, bytes);
          case 4 -> four(rows[0], rows[1], rows[2], rows[3], out, bytes);
          default -> any(rows, count, out, bytes);
        };
    PlainSums.bf16Rows(rows, count, out, at / 2, elements);
  }

  private static int any(long[] rows, int count, long out, int bytes) {
    int at = 0;
    for (; at <= bytes - BYTES; at += BYTES) {
      FloatVector even = FloatVector.zero(FLOAT);
      FloatVector odd = FloatVector.zero(FLOAT);
      for (int r = 0; r < count; r++) {
        IntVector a = INTS.cast(IntVector.fromMemorySegment(INT, MEMORY, rows[r] + at, ORDER));
        even = FLOATS.cast(a.lanewise(LSHL, 16).reinterpretAsFloats()).add(FLOATS.cast(even));
        odd = FLOATS.cast(a.and(UPPER).reinterpretAsFloats()).add(FLOATS.cast(odd));
      }
      FloatVector first = FLOATS.cast(even);
      FloatVector second = FLOATS.cast(odd);
      IntVector low = INTS.cast(first.blend(NAN, first.compare(NE, first)).reinterpretAsInts());
      IntVector high = INTS.cast(second.blend(NAN, second.compare(NE, second)).reinterpretAsInts());
      low = low.add(low.lanewise(LSHR, 16).and(ONE)).add(BELOW_HALF);
      high = high.add(high.lanewise(LSHR, 16).and(ONE)).add(BELOW_HALF);
      low.lanewise(LSHR, 16).or(high.and(UPPER)).intoMemorySegment(MEMORY, out + at, ORDER);
    }
    return at;
  }

  /**
   * Three rows, and {@link #four} four: the usual case of four ranks. The addresses are in
   * registers instead of a loop over the rows.
   */
  private static int three(long row0, long row1, long row2, long out, int bytes) {
    int at = 0;
    for (; at <= bytes - BYTES; at += BYTES) {
      IntVector a = INTS.cast(IntVector.fromMemorySegment(INT, MEMORY, row0 + at, ORDER));
      IntVector b = INTS.cast(IntVector.fromMemorySegment(INT, MEMORY, row1 + at, ORDER));
      IntVector c = INTS.cast(IntVector.fromMemorySegment(INT, MEMORY, row2 + at, ORDER));
      FloatVector even =
          FLOATS.cast(a.lanewise(LSHL, 16).reinterpretAsFloats()).add(FloatVector.zero(FLOAT));
      FloatVector odd =
          FLOATS.cast(a.and(UPPER).reinterpretAsFloats()).add(FloatVector.zero(FLOAT));
      even = FLOATS.cast(b.lanewise(LSHL, 16).reinterpretAsFloats()).add(even);
      odd = FLOATS.cast(b.and(UPPER).reinterpretAsFloats()).add(odd);
      even = FLOATS.cast(c.lanewise(LSHL, 16).reinterpretAsFloats()).add(even);
      odd = FLOATS.cast(c.and(UPPER).reinterpretAsFloats()).add(odd);
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

  private static int four(long row0, long row1, long row2, long row3, long out, int bytes) {
    int at = 0;
    for (; at <= bytes - BYTES; at += BYTES) {
      FloatVector even = FloatVector.zero(FLOAT);
      FloatVector odd = FloatVector.zero(FLOAT);
      long x = row0; // four loads would cost too many nodes: C2 unrolls the loop
      long y = row1;
      for (int pair = 0; pair < 2; pair++) {
        IntVector a = INTS.cast(IntVector.fromMemorySegment(INT, MEMORY, x + at, ORDER));
        IntVector b = INTS.cast(IntVector.fromMemorySegment(INT, MEMORY, y + at, ORDER));
        even = FLOATS.cast(a.lanewise(LSHL, 16).reinterpretAsFloats()).add(even);
        odd = FLOATS.cast(a.and(UPPER).reinterpretAsFloats()).add(odd);
        even = FLOATS.cast(b.lanewise(LSHL, 16).reinterpretAsFloats()).add(even);
        odd = FLOATS.cast(b.and(UPPER).reinterpretAsFloats()).add(odd);
        x = row2;
        y = row3;
      }
      FloatVector first = FLOATS.cast(even);
      FloatVector second = FLOATS.cast(odd);
      IntVector low = INTS.cast(first.blend(NAN, first.compare(NE, first)).reinterpretAsInts());
      IntVector high = INTS.cast(second.blend(NAN, second.compare(NE, second)).reinterpretAsInts());
      low = low.add(low.lanewise(LSHR, 16).and(ONE)).add(BELOW_HALF);
      high = high.add(high.lanewise(LSHR, 16).and(ONE)).add(BELOW_HALF);
      low.lanewise(LSHR, 16).or(high.and(UPPER)).intoMemorySegment(MEMORY, out + at, ORDER);
    }
    return at;
  }

  static void groups(
      long[] rows, int[] groupEnd, int groups, boolean rounded, long out, int elements) {
    int bytes = 2 * elements;
    int at =
        rounded
            ? roundedGroups(rows, groupEnd, groups, out, bytes)
            : exactGroups(rows, groupEnd, groups, out, bytes);
    PlainSums.groups(DType.BF16, rows, groupEnd, groups, rounded, out, at / 2, elements);
  }

  private static int roundedGroups(long[] rows, int[] groupEnd, int groups, long out, int bytes) {
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
          evenPart = FLOATS.cast(a.lanewise(LSHL, 16).reinterpretAsFloats()).add(evenPart);
          oddPart = FLOATS.cast(a.and(UPPER).reinterpretAsFloats()).add(oddPart);
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

  private static int exactGroups(long[] rows, int[] groupEnd, int groups, long out, int bytes) {
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
          evenPart = FLOATS.cast(a.lanewise(LSHL, 16).reinterpretAsFloats()).add(evenPart);
          oddPart = FLOATS.cast(a.and(UPPER).reinterpretAsFloats()).add(oddPart);
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
