package org.ep4j.engine.host.kernel;

import static jdk.incubator.vector.VectorOperators.EQ;
import static jdk.incubator.vector.VectorOperators.I2F;
import static jdk.incubator.vector.VectorOperators.LSHL;
import static jdk.incubator.vector.VectorOperators.LSHR;
import static jdk.incubator.vector.VectorOperators.MAX;
import static jdk.incubator.vector.VectorOperators.MIN;
import static org.ep4j.engine.host.kernel.LogFmt.GROUP;
import static org.ep4j.engine.host.kernel.VectorKernels.BYTES;
import static org.ep4j.engine.host.kernel.VectorKernels.FLOAT;
import static org.ep4j.engine.host.kernel.VectorKernels.FLOATS;
import static org.ep4j.engine.host.kernel.VectorKernels.INT;
import static org.ep4j.engine.host.kernel.VectorKernels.INTS;
import static org.ep4j.engine.host.kernel.VectorKernels.MEMORY;
import static org.ep4j.engine.host.kernel.VectorKernels.ORDER;
import static org.ep4j.engine.host.kernel.VectorKernels.SHORT;
import static org.ep4j.engine.host.kernel.VectorKernels.SHORTS;

import jdk.incubator.vector.FloatVector;
import jdk.incubator.vector.IntVector;
import jdk.incubator.vector.ShortVector;

/**
 * Groups of LogFMT. The even, then the odd values of a vector pass through the same method; the
 * method takes and returns the bits of one half of each pair.
 */
final class VectorLogFmt extends LogFmtRows {
  private static final int UNIT_BITS = Float.floatToRawIntBits(LogFmt.UNIT);
  private static final int INTEGRAL_BITS = Float.floatToRawIntBits(LogFmt.INTEGRAL);

  @Override
  int meta(long source) {
    ShortVector max = ShortVector.zero(SHORT);
    ShortVector min = ShortVector.broadcast(SHORT, (short) 0x7FFF);
    for (int at = 0; at < 2 * GROUP; at += BYTES) {
      ShortVector magnitude =
          SHORTS
              .cast(ShortVector.fromMemorySegment(SHORT, MEMORY, source + at, ORDER))
              .and((short) 0x7FFF);
      max = magnitude.max(max);
      min = magnitude.min(min);
    }
    return SHORTS.cast(min).reduceLanes(MIN) << 16 | SHORTS.cast(max).reduceLanes(MAX);
  }

  @Override
  void encodeGroup(long source, int meta, long codes) {
    int floor = LogFmt.floor(meta);
    float u0 = LogFmt.fractionLog(floor, 0);
    float step = LogFmt.step(meta);
    encode(source, codes, floor >>> 7, -u0, 1 / step, LogFmt.half(step));
  }

  private static void encode(
      long source, long codes, int e0, float offset, float inverse, float half) {
    for (int at = 0; at < 2 * GROUP; at += BYTES) {
      IntVector pair = INTS.cast(IntVector.fromMemorySegment(INT, MEMORY, source + at, ORDER));
      IntVector result = pair.and(0x80008000);
      for (int shift = 0; shift <= 16; shift += 16) { // even, odd
        IntVector bits = INTS.cast(pair).lanewise(LSHR, shift).and(0x7FFF);
        IntVector one = bits.and(0x7F).lanewise(LSHL, 16).or(0x3F800000);
        FloatVector f = FLOATS.cast(one.reinterpretAsFloats()).sub(1f);
        FloatVector q = FloatVector.broadcast(FLOAT, LogFmt.LOG_5);
        q = f.fma(q, FloatVector.broadcast(FLOAT, LogFmt.LOG_4));
        q = f.fma(q, FloatVector.broadcast(FLOAT, LogFmt.LOG_3));
        q = f.fma(q, FloatVector.broadcast(FLOAT, LogFmt.LOG_2));
        q = f.fma(q, FloatVector.broadcast(FLOAT, LogFmt.LOG_1));
        q = f.fma(q, FloatVector.broadcast(FLOAT, LogFmt.LOG_0));
        q = f.fma(q, FloatVector.broadcast(FLOAT, offset));
        FloatVector d = FLOATS.cast(bits.lanewise(LSHR, 7).sub(e0).convert(I2F, 0)).add(q);
        FloatVector c =
            d.fma(FloatVector.broadcast(FLOAT, inverse), FloatVector.broadcast(FLOAT, half))
                .max(0f)
                .add(LogFmt.UNIT);
        IntVector code = INTS.cast(c.reinterpretAsInts()).sub(UNIT_BITS);
        result = code.lanewise(LSHL, shift).or(result);
      }
      INTS.cast(result).intoMemorySegment(MEMORY, codes + at, ORDER);
    }
  }

  @Override
  void decodeGroup(long codes, int meta) {
    int floor = LogFmt.floor(meta);
    float u0 = LogFmt.fractionLog(floor, 0);
    float step = LogFmt.step(meta);
    decode(codes, floor >>> 7, u0 - step, step);
  }

  private static void decode(long codes, int e0, float offset, float step) {
    int exponent = e0 - 127 - INTEGRAL_BITS << 23;
    for (int at = 0; at < 2 * GROUP; at += BYTES) {
      IntVector pair = INTS.cast(IntVector.fromMemorySegment(INT, MEMORY, codes + at, ORDER));
      IntVector result = pair.and(0x80008000);
      for (int shift = 0; shift <= 16; shift += 16) { // even, odd
        IntVector code = INTS.cast(pair).lanewise(LSHR, shift).and(0x1FF);
        FloatVector y =
            FLOATS
                .cast(code.convert(I2F, 0))
                .fma(FloatVector.broadcast(FLOAT, step), FloatVector.broadcast(FLOAT, offset));
        FloatVector t = y.add(LogFmt.INTEGRAL);
        FloatVector r = y.sub(t.sub(LogFmt.INTEGRAL));
        FloatVector e = FloatVector.broadcast(FLOAT, LogFmt.EXP_4);
        e = r.fma(e, FloatVector.broadcast(FLOAT, LogFmt.EXP_3));
        e = r.fma(e, FloatVector.broadcast(FLOAT, LogFmt.EXP_2));
        e = r.fma(e, FloatVector.broadcast(FLOAT, LogFmt.EXP_1));
        e = r.fma(e, FloatVector.broadcast(FLOAT, 1f));
        IntVector bits =
            INTS.cast(t.reinterpretAsInts())
                .lanewise(LSHL, 23)
                .add(exponent)
                .add(e.reinterpretAsInts());
        bits =
            bits.add(bits.lanewise(LSHR, 16).and(1))
                .add(0x7FFF)
                .lanewise(LSHR, 16)
                .blend(0, code.compare(EQ, 0));
        result = bits.lanewise(LSHL, shift).or(result);
      }
      INTS.cast(result).intoMemorySegment(MEMORY, codes + at, ORDER);
    }
  }
}
