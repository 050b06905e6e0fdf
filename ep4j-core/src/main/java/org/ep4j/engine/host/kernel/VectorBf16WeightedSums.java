package org.ep4j.engine.host.kernel;

import static jdk.incubator.vector.VectorOperators.GT;
import static jdk.incubator.vector.VectorOperators.LSHL;
import static jdk.incubator.vector.VectorOperators.LSHR;
import static org.ep4j.engine.host.kernel.VectorKernels.BYTES;
import static org.ep4j.engine.host.kernel.VectorKernels.FLOAT;
import static org.ep4j.engine.host.kernel.VectorKernels.FLOATS;
import static org.ep4j.engine.host.kernel.VectorKernels.INT;
import static org.ep4j.engine.host.kernel.VectorKernels.INTS;
import static org.ep4j.engine.host.kernel.VectorKernels.MEMORY;
import static org.ep4j.engine.host.kernel.VectorKernels.ORDER;

import jdk.incubator.vector.FloatVector;
import jdk.incubator.vector.IntVector;
import org.ep4j.tensor.DType;

/** Weighted sums of bf16 rows, even and odd elements in float32. */
final class VectorBf16WeightedSums {
  private VectorBf16WeightedSums() {}

  static void rows(long[] rows, float[] weights, int count, long out, int elements) {
    int bytes = 2 * elements;
    int at = 0;
    for (; at <= bytes - BYTES; at += BYTES) {
      FloatVector even = FloatVector.zero(FLOAT);
      FloatVector odd = FloatVector.zero(FLOAT);
      int r = 0;
      for (; r < count - 1; r += 2) { // two rows per step: C2 does not unroll so short a loop
        IntVector a = INTS.cast(IntVector.fromMemorySegment(INT, MEMORY, rows[r] + at, ORDER));
        IntVector b = INTS.cast(IntVector.fromMemorySegment(INT, MEMORY, rows[r + 1] + at, ORDER));
        FloatVector wa = FloatVector.broadcast(FLOAT, weights[r]);
        FloatVector wb = FloatVector.broadcast(FLOAT, weights[r + 1]);
        even = FLOATS.cast(a.lanewise(LSHL, 16).reinterpretAsFloats()).fma(wa, even);
        odd = FLOATS.cast(a.and(0xFFFF0000).reinterpretAsFloats()).fma(wa, odd);
        even = FLOATS.cast(b.lanewise(LSHL, 16).reinterpretAsFloats()).fma(wb, even);
        odd = FLOATS.cast(b.and(0xFFFF0000).reinterpretAsFloats()).fma(wb, odd);
      }
      if (r < count) {
        IntVector a = INTS.cast(IntVector.fromMemorySegment(INT, MEMORY, rows[r] + at, ORDER));
        FloatVector wa = FloatVector.broadcast(FLOAT, weights[r]);
        even = FLOATS.cast(a.lanewise(LSHL, 16).reinterpretAsFloats()).fma(wa, even);
        odd = FLOATS.cast(a.and(0xFFFF0000).reinterpretAsFloats()).fma(wa, odd);
      }
      IntVector low = INTS.cast(FLOATS.cast(even).reinterpretAsInts());
      IntVector high = INTS.cast(FLOATS.cast(odd).reinterpretAsInts());
      low =
          low.add(low.lanewise(LSHR, 16).and(1))
              .add(0x7FFF)
              .blend(Fp32.NAN, low.and(0x7FFFFFFF).compare(GT, 0x7F800000));
      high =
          high.add(high.lanewise(LSHR, 16).and(1))
              .add(0x7FFF)
              .blend(Fp32.NAN, high.and(0x7FFFFFFF).compare(GT, 0x7F800000));
      low.lanewise(LSHR, 16).or(high.and(0xFFFF0000)).intoMemorySegment(MEMORY, out + at, ORDER);
    }
    PlainSums.weighted(DType.BF16, rows, weights, count, out, at / 2, elements);
  }

  static void groups(
      long[] rows, float[] weights, int[] groupEnd, int groups, long out, int elements) {
    int bytes = 2 * elements;
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
          oddPart = FLOATS.cast(a.and(0xFFFF0000).reinterpretAsFloats()).fma(w, oddPart);
        }
        IntVector low = INTS.cast(FLOATS.cast(evenPart).reinterpretAsInts());
        IntVector high = INTS.cast(FLOATS.cast(oddPart).reinterpretAsInts());
        low =
            low.add(low.lanewise(LSHR, 16).and(1))
                .add(0x7FFF)
                .blend(Fp32.NAN, low.and(0x7FFFFFFF).compare(GT, 0x7F800000));
        high =
            high.add(high.lanewise(LSHR, 16).and(1))
                .add(0x7FFF)
                .blend(Fp32.NAN, high.and(0x7FFFFFFF).compare(GT, 0x7F800000));
        even = FLOATS.cast(low.and(0xFFFF0000).reinterpretAsFloats()).add(even);
        odd = FLOATS.cast(high.and(0xFFFF0000).reinterpretAsFloats()).add(odd);
      }
      IntVector low = INTS.cast(FLOATS.cast(even).reinterpretAsInts());
      IntVector high = INTS.cast(FLOATS.cast(odd).reinterpretAsInts());
      low =
          low.add(low.lanewise(LSHR, 16).and(1))
              .add(0x7FFF)
              .blend(Fp32.NAN, low.and(0x7FFFFFFF).compare(GT, 0x7F800000));
      high =
          high.add(high.lanewise(LSHR, 16).and(1))
              .add(0x7FFF)
              .blend(Fp32.NAN, high.and(0x7FFFFFFF).compare(GT, 0x7F800000));
      low.lanewise(LSHR, 16).or(high.and(0xFFFF0000)).intoMemorySegment(MEMORY, out + at, ORDER);
    }
    PlainSums.weightedGroups(rows, weights, groupEnd, groups, out, at / 2, elements);
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
          oddPart = FLOATS.cast(a.and(0xFFFF0000).reinterpretAsFloats()).mul(w).add(oddPart);
        }
        if (rounded) {
          IntVector low = INTS.cast(FLOATS.cast(evenPart).reinterpretAsInts());
          IntVector high = INTS.cast(FLOATS.cast(oddPart).reinterpretAsInts());
          evenPart =
              low.add(low.lanewise(LSHR, 16).and(1))
                  .add(0x7FFF)
                  .blend(Fp32.NAN, low.and(0x7FFFFFFF).compare(GT, 0x7F800000))
                  .and(0xFFFF0000)
                  .reinterpretAsFloats();
          oddPart =
              high.add(high.lanewise(LSHR, 16).and(1))
                  .add(0x7FFF)
                  .blend(Fp32.NAN, high.and(0x7FFFFFFF).compare(GT, 0x7F800000))
                  .and(0xFFFF0000)
                  .reinterpretAsFloats();
        }
        even = FLOATS.cast(evenPart).add(even);
        odd = FLOATS.cast(oddPart).add(odd);
      }
      IntVector low = INTS.cast(FLOATS.cast(even).reinterpretAsInts());
      IntVector high = INTS.cast(FLOATS.cast(odd).reinterpretAsInts());
      low =
          low.add(low.lanewise(LSHR, 16).and(1))
              .add(0x7FFF)
              .blend(Fp32.NAN, low.and(0x7FFFFFFF).compare(GT, 0x7F800000));
      high =
          high.add(high.lanewise(LSHR, 16).and(1))
              .add(0x7FFF)
              .blend(Fp32.NAN, high.and(0x7FFFFFFF).compare(GT, 0x7F800000));
      low.lanewise(LSHR, 16).or(high.and(0xFFFF0000)).intoMemorySegment(MEMORY, out + at, ORDER);
    }
    PlainSums.scaledGroups(
        DType.BF16, rows, weights, groupEnd, groups, rounded, out, at / 2, elements);
  }
}
