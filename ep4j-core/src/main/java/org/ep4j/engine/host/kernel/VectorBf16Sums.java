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

/** Sums of bf16 rows: even and odd elements of a vector of pairs, each in float32. */
final class VectorBf16Sums {
  private VectorBf16Sums() {}

  static void rows(long[] rows, int count, long out, int elements) {
    int bytes = 2 * elements;
    int at = 0;
    if (count == 3) {
      at = three(rows[0], rows[1], rows[2], out, bytes);
    } else if (count == 4) {
      at = four(rows[0], rows[1], rows[2], rows[3], out, bytes);
    }
    for (; at <= bytes - BYTES; at += BYTES) {
      FloatVector even = FloatVector.zero(FLOAT);
      FloatVector odd = FloatVector.zero(FLOAT);
      int r = 0;
      for (; r < count - 1; r += 2) { // two rows per step: C2 does not unroll so short a loop
        IntVector a = INTS.cast(IntVector.fromMemorySegment(INT, MEMORY, rows[r] + at, ORDER));
        IntVector b = INTS.cast(IntVector.fromMemorySegment(INT, MEMORY, rows[r + 1] + at, ORDER));
        even = FLOATS.cast(a.lanewise(LSHL, 16).reinterpretAsFloats()).add(even);
        even = FLOATS.cast(b.lanewise(LSHL, 16).reinterpretAsFloats()).add(even);
        odd = FLOATS.cast(a.and(0xFFFF0000).reinterpretAsFloats()).add(odd);
        odd = FLOATS.cast(b.and(0xFFFF0000).reinterpretAsFloats()).add(odd);
      }
      if (r < count) {
        IntVector a = INTS.cast(IntVector.fromMemorySegment(INT, MEMORY, rows[r] + at, ORDER));
        even = FLOATS.cast(a.lanewise(LSHL, 16).reinterpretAsFloats()).add(even);
        odd = FLOATS.cast(a.and(0xFFFF0000).reinterpretAsFloats()).add(odd);
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
    PlainSums.bf16Rows(rows, count, out, at / 2, elements);
  }

  /**
   * Three rows, and {@link #four} four: the usual case of four ranks. The addresses are in
   * registers instead of a loop over the rows, which saves a tenth of a combine. Two rows gain
   * nothing.
   *
   * @return the number of bytes done: whole vectors
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
          FLOATS.cast(a.and(0xFFFF0000).reinterpretAsFloats()).add(FloatVector.zero(FLOAT));
      even = FLOATS.cast(b.lanewise(LSHL, 16).reinterpretAsFloats()).add(even);
      odd = FLOATS.cast(b.and(0xFFFF0000).reinterpretAsFloats()).add(odd);
      even = FLOATS.cast(c.lanewise(LSHL, 16).reinterpretAsFloats()).add(even);
      odd = FLOATS.cast(c.and(0xFFFF0000).reinterpretAsFloats()).add(odd);
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
    return at;
  }

  private static int four(long row0, long row1, long row2, long row3, long out, int bytes) {
    int at = 0;
    for (; at <= bytes - BYTES; at += BYTES) {
      IntVector a = INTS.cast(IntVector.fromMemorySegment(INT, MEMORY, row0 + at, ORDER));
      IntVector b = INTS.cast(IntVector.fromMemorySegment(INT, MEMORY, row1 + at, ORDER));
      IntVector c = INTS.cast(IntVector.fromMemorySegment(INT, MEMORY, row2 + at, ORDER));
      IntVector d = INTS.cast(IntVector.fromMemorySegment(INT, MEMORY, row3 + at, ORDER));
      FloatVector even =
          FLOATS.cast(a.lanewise(LSHL, 16).reinterpretAsFloats()).add(FloatVector.zero(FLOAT));
      FloatVector odd =
          FLOATS.cast(a.and(0xFFFF0000).reinterpretAsFloats()).add(FloatVector.zero(FLOAT));
      even = FLOATS.cast(b.lanewise(LSHL, 16).reinterpretAsFloats()).add(even);
      odd = FLOATS.cast(b.and(0xFFFF0000).reinterpretAsFloats()).add(odd);
      even = FLOATS.cast(c.lanewise(LSHL, 16).reinterpretAsFloats()).add(even);
      odd = FLOATS.cast(c.and(0xFFFF0000).reinterpretAsFloats()).add(odd);
      even = FLOATS.cast(d.lanewise(LSHL, 16).reinterpretAsFloats()).add(even);
      odd = FLOATS.cast(d.and(0xFFFF0000).reinterpretAsFloats()).add(odd);
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
    return at;
  }

  static void groups(
      long[] rows, int[] groupEnd, int groups, boolean rounded, long out, int elements) {
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
          evenPart = FLOATS.cast(a.lanewise(LSHL, 16).reinterpretAsFloats()).add(evenPart);
          oddPart = FLOATS.cast(a.and(0xFFFF0000).reinterpretAsFloats()).add(oddPart);
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
    PlainSums.groups(DType.BF16, rows, groupEnd, groups, rounded, out, at / 2, elements);
  }
}
