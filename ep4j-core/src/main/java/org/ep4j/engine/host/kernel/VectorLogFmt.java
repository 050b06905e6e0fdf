package org.ep4j.engine.host.kernel;

import static jdk.incubator.vector.VectorOperators.EQ;
import static jdk.incubator.vector.VectorOperators.I2F;
import static jdk.incubator.vector.VectorOperators.LSHL;
import static jdk.incubator.vector.VectorOperators.LSHR;
import static jdk.incubator.vector.VectorOperators.MAX;
import static jdk.incubator.vector.VectorOperators.MIN;
import static org.ep4j.engine.host.kernel.LogFmt.GROUP;
import static org.ep4j.engine.host.kernel.VectorKernels.BELOW_HALF;
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
  private static final IntVector UNIT_BITS =
      IntVector.broadcast(INT, Float.floatToRawIntBits(LogFmt.UNIT));
  private static final int INTEGRAL_BITS = Float.floatToRawIntBits(LogFmt.INTEGRAL);

  private static final IntVector SIGNS = IntVector.broadcast(INT, 0x80008000);
  private static final IntVector CODE = IntVector.broadcast(INT, 0x1FF);
  private static final IntVector NONE = IntVector.broadcast(INT, 0);

  private static final FloatVector ZERO = FloatVector.broadcast(FLOAT, 0);
  private static final FloatVector ONE = FloatVector.broadcast(FLOAT, 1);
  private static final FloatVector UNIT = FloatVector.broadcast(FLOAT, LogFmt.UNIT);
  private static final FloatVector INTEGRAL = FloatVector.broadcast(FLOAT, LogFmt.INTEGRAL);
  private static final FloatVector LOG_0 = FloatVector.broadcast(FLOAT, LogFmt.LOG_0);
  private static final FloatVector LOG_1 = FloatVector.broadcast(FLOAT, LogFmt.LOG_1);
  private static final FloatVector LOG_2 = FloatVector.broadcast(FLOAT, LogFmt.LOG_2);
  private static final FloatVector LOG_3 = FloatVector.broadcast(FLOAT, LogFmt.LOG_3);
  private static final FloatVector LOG_4 = FloatVector.broadcast(FLOAT, LogFmt.LOG_4);
  private static final FloatVector LOG_5 = FloatVector.broadcast(FLOAT, LogFmt.LOG_5);
  private static final FloatVector EXP_1 = FloatVector.broadcast(FLOAT, LogFmt.EXP_1);
  private static final FloatVector EXP_2 = FloatVector.broadcast(FLOAT, LogFmt.EXP_2);
  private static final FloatVector EXP_3 = FloatVector.broadcast(FLOAT, LogFmt.EXP_3);
  private static final FloatVector EXP_4 = FloatVector.broadcast(FLOAT, LogFmt.EXP_4);

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
        FloatVector f = FLOATS.cast(one.reinterpretAsFloats()).sub(ONE);
        FloatVector q = LOG_5;
        q = f.fma(q, LOG_4);
        q = f.fma(q, LOG_3);
        q = f.fma(q, LOG_2);
        q = f.fma(q, LOG_1);
        q = f.fma(q, LOG_0);
        q = f.fma(q, FloatVector.broadcast(FLOAT, offset));
        FloatVector d = FLOATS.cast(bits.lanewise(LSHR, 7).sub(e0).convert(I2F, 0)).add(q);
        FloatVector c =
            d.fma(FloatVector.broadcast(FLOAT, inverse), FloatVector.broadcast(FLOAT, half))
                .max(ZERO)
                .add(UNIT);
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
    IntVector exponent = IntVector.broadcast(INT, e0 - 127 - INTEGRAL_BITS << 23);
    FloatVector u = FloatVector.broadcast(FLOAT, offset);
    FloatVector scale = FloatVector.broadcast(FLOAT, step);
    for (int at = 0; at < 2 * GROUP; at += BYTES) {
      IntVector pair = INTS.cast(IntVector.fromMemorySegment(INT, MEMORY, codes + at, ORDER));
      IntVector result = pair.and(SIGNS);
      for (int shift = 0; shift <= 16; shift += 16) { // even, odd
        IntVector code = INTS.cast(pair).lanewise(LSHR, shift).and(CODE);
        FloatVector y = FLOATS.cast(code.convert(I2F, 0)).fma(scale, u);
        FloatVector t = y.add(INTEGRAL);
        FloatVector r = y.sub(t.sub(INTEGRAL));
        FloatVector e = r.fma(EXP_4, EXP_3);
        e = r.fma(e, EXP_2);
        e = r.fma(e, EXP_1);
        e = r.fma(e, ONE);
        IntVector bits =
            INTS.cast(t.reinterpretAsInts())
                .lanewise(LSHL, 23)
                .add(exponent)
                .add(e.reinterpretAsInts());
        bits =
            bits.add(bits.lanewise(LSHR, 16).and(VectorKernels.ONE))
                .add(BELOW_HALF)
                .lanewise(LSHR, 16)
                .blend(NONE, code.compare(EQ, NONE));
        result = bits.lanewise(LSHL, shift).or(result);
      }
      INTS.cast(result).intoMemorySegment(MEMORY, codes + at, ORDER);
    }
  }
}
