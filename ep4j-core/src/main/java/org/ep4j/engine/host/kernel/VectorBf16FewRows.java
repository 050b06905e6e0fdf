package org.ep4j.engine.host.kernel;

import static jdk.incubator.vector.VectorOperators.GT;
import static jdk.incubator.vector.VectorOperators.LSHL;
import static jdk.incubator.vector.VectorOperators.LSHR;
import static org.ep4j.engine.host.kernel.Lanes.BYTES;
import static org.ep4j.engine.host.kernel.Lanes.FLOAT;
import static org.ep4j.engine.host.kernel.Lanes.FLOATS;
import static org.ep4j.engine.host.kernel.Lanes.INTS;
import static org.ep4j.engine.host.kernel.Lanes.MEMORY;
import static org.ep4j.engine.host.kernel.Lanes.ORDER;
import static org.ep4j.engine.host.kernel.Lanes.loadInts;

import jdk.incubator.vector.FloatVector;
import jdk.incubator.vector.IntVector;

/**
 * Sums of three and four bf16 rows, the usual case of four ranks: as {@link VectorBf16Sums}, but
 * with the addresses in registers instead of a loop over the rows, which saves a tenth of a
 * combine. Two rows gain nothing.
 */
final class VectorBf16FewRows {
  private VectorBf16FewRows() {}

  /** Returns the number of bytes done: whole vectors. */
  static int three(long row0, long row1, long row2, long out, int bytes) {
    int at = 0;
    for (; at <= bytes - BYTES; at += BYTES) {
      IntVector a = loadInts(row0 + at);
      IntVector b = loadInts(row1 + at);
      IntVector c = loadInts(row2 + at);
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

  /** Returns the number of bytes done: whole vectors. */
  static int four(long row0, long row1, long row2, long row3, long out, int bytes) {
    int at = 0;
    for (; at <= bytes - BYTES; at += BYTES) {
      IntVector a = loadInts(row0 + at);
      IntVector b = loadInts(row1 + at);
      IntVector c = loadInts(row2 + at);
      IntVector d = loadInts(row3 + at);
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
}
