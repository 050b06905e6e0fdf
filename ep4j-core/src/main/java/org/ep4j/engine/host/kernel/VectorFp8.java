package org.ep4j.engine.host.kernel;

import static jdk.incubator.vector.VectorOperators.B2S;
import static jdk.incubator.vector.VectorOperators.EQ;
import static jdk.incubator.vector.VectorOperators.I2S;
import static jdk.incubator.vector.VectorOperators.LSHL;
import static jdk.incubator.vector.VectorOperators.LSHR;
import static jdk.incubator.vector.VectorOperators.LT;
import static jdk.incubator.vector.VectorOperators.MAX;
import static jdk.incubator.vector.VectorOperators.NE;
import static org.ep4j.engine.host.kernel.Fp8.BLOCK;
import static org.ep4j.engine.host.kernel.VectorKernels.BELOW_HALF;
import static org.ep4j.engine.host.kernel.VectorKernels.BYTES;
import static org.ep4j.engine.host.kernel.VectorKernels.FLOAT;
import static org.ep4j.engine.host.kernel.VectorKernels.FLOATS;
import static org.ep4j.engine.host.kernel.VectorKernels.HALF_BYTE;
import static org.ep4j.engine.host.kernel.VectorKernels.HALF_BYTES;
import static org.ep4j.engine.host.kernel.VectorKernels.HALF_SHORT;
import static org.ep4j.engine.host.kernel.VectorKernels.HALF_SHORTS;
import static org.ep4j.engine.host.kernel.VectorKernels.INT;
import static org.ep4j.engine.host.kernel.VectorKernels.INTS;
import static org.ep4j.engine.host.kernel.VectorKernels.MEMORY;
import static org.ep4j.engine.host.kernel.VectorKernels.NAN;
import static org.ep4j.engine.host.kernel.VectorKernels.ONE;
import static org.ep4j.engine.host.kernel.VectorKernels.ORDER;
import static org.ep4j.engine.host.kernel.VectorKernels.SHORT;
import static org.ep4j.engine.host.kernel.VectorKernels.SHORTS;
import static org.ep4j.engine.host.kernel.VectorKernels.UPPER;

import jdk.incubator.vector.ByteVector;
import jdk.incubator.vector.FloatVector;
import jdk.incubator.vector.IntVector;
import jdk.incubator.vector.ShortVector;
import org.ep4j.tensor.ScaleKind;

/** FP8 rows; {@link Fp8} defines the numbers. */
final class VectorFp8 {
  private static final int SMALLEST_NORMAL = 121 << 23; // 2^-6

  /** Excess of {@link #encodeFinite} in the codes of an even and an odd element. */
  private static final int EXCESS = (20 << 23) + (SMALLEST_NORMAL >>> 20);

  private static final IntVector EXCESS_OF_PAIR = IntVector.broadcast(INT, EXCESS + (EXCESS << 8));
  private static final IntVector EXPONENT = IntVector.broadcast(INT, 0x7F800000);
  private static final IntVector MAGNITUDE = IntVector.broadcast(INT, 0x7FFF0000);
  private static final IntVector SIGN_OF_EVEN = IntVector.broadcast(INT, 0x80);
  private static final IntVector SIGN_OF_ODD = IntVector.broadcast(INT, 0x8000);

  private static final ShortVector CODE_MAGNITUDE = ShortVector.broadcast(SHORT, 0x7F);
  private static final ShortVector CODE_SIGN = ShortVector.broadcast(SHORT, (short) 0x8000);
  private static final ShortVector EIGHT = ShortVector.broadcast(SHORT, 8);
  private static final ShortVector REBIAS = ShortVector.broadcast(SHORT, 120 << 7);
  private static final ShortVector BF16_NAN = ShortVector.broadcast(SHORT, Bf16.NAN);

  /**
   * bf16 bits of the multiples of 2^-9, the subnormals of E4M3. An index is a code: codes of normal
   * numbers wrap, and their elements are not used.
   */
  private static final ShortVector SUBNORMALS;

  static {
    short[] subnormals = new short[SHORT.length()];
    for (int i = 0; i < 8; i++) {
      subnormals[i] = Fp8.toBf16((byte) i);
    }
    SUBNORMALS = ShortVector.fromArray(SHORT, subnormals, 0);
  }

  private VectorFp8() {}

  static void encode(long source, int hidden, long target, long scales, ScaleKind kind) {
    for (int block = 0; block < hidden / BLOCK; block++) {
      long from = source + 2L * BLOCK * block;
      int largest = largest(from);
      if (largest < 0x7F80) {
        float amax = PlainFp8.storeScale(largest, block, scales, kind);
        encodeFinite(from, target + (long) BLOCK * block, Fp8.multiplier(kind, amax));
      } else { // an infinity or a NaN in the block
        PlainFp8.encodeBlock(source, block, target, scales, kind);
      }
    }
  }

  /** The largest magnitude of a block, as bf16 bits. */
  private static int largest(long source) {
    ShortVector largest = ShortVector.zero(SHORT);
    for (int at = 0; at < 2 * BLOCK; at += BYTES) {
      largest =
          SHORTS
              .cast(ShortVector.fromMemorySegment(SHORT, MEMORY, source + at, ORDER))
              .and((short) 0x7FFF)
              .max(largest);
    }
    return SHORTS.cast(largest).reduceLanes(MAX);
  }

  /** A block of finite values; the same rounding by addition as in {@link Fp8#fromFloat}. */
  private static void encodeFinite(long source, long target, float multiplier) {
    IntVector smallestNormal = IntVector.broadcast(INT, SMALLEST_NORMAL);
    FloatVector rounding = FloatVector.broadcast(FLOAT, 0x1p20f);
    FloatVector factor = FloatVector.broadcast(FLOAT, multiplier);
    for (int at = 0; at < 2 * BLOCK; at += BYTES) {
      IntVector pair = INTS.cast(IntVector.fromMemorySegment(INT, MEMORY, source + at, ORDER));
      IntVector codes =
          pair.lanewise(LSHR, 8)
              .and(SIGN_OF_EVEN)
              .or(pair.lanewise(LSHR, 16).and(SIGN_OF_ODD))
              .sub(EXCESS_OF_PAIR);
      IntVector bits = pair.lanewise(LSHL, 16);
      for (int shift = 0; shift <= 8; shift += 8) { // even, odd
        FloatVector value =
            FLOATS.cast(INTS.cast(bits).and(MAGNITUDE).reinterpretAsFloats()).mul(factor);
        IntVector exponent = INTS.cast(value.reinterpretAsInts()).max(smallestNormal).and(EXPONENT);
        FloatVector sum = FLOATS.cast(exponent.reinterpretAsFloats()).fma(rounding, value);
        codes =
            INTS.cast(sum.reinterpretAsInts())
                .sub(exponent)
                .add(exponent.lanewise(LSHR, 20))
                .lanewise(LSHL, shift)
                .add(codes);
        bits = pair;
      }
      HALF_SHORTS
          .cast(INTS.cast(codes).convertShape(I2S, HALF_SHORT, 0))
          .intoMemorySegment(MEMORY, target + at / 2, ORDER);
    }
  }

  static void decode(long source, int hidden, long target) {
    int step = SHORT.length();
    int at = 0;
    for (; at <= hidden - step; at += step) {
      ShortVector code =
          SHORTS.cast(
              HALF_BYTES
                  .cast(ByteVector.fromMemorySegment(HALF_BYTE, MEMORY, source + at, ORDER))
                  .convertShape(B2S, SHORT, 0));
      ShortVector magnitude = code.and(CODE_MAGNITUDE);
      magnitude
          .lanewise(LSHL, 4)
          .add(REBIAS)
          .blend(magnitude.selectFrom(SUBNORMALS), magnitude.compare(LT, EIGHT))
          .or(code.and(CODE_SIGN))
          .blend(BF16_NAN, magnitude.compare(EQ, CODE_MAGNITUDE))
          .intoMemorySegment(MEMORY, target + 2L * at, ORDER);
    }
    PlainFp8.decode(source, target, at, hidden);
  }

  static void dequantise(long source, long scales, ScaleKind kind, int hidden, long target) {
    for (int block = 0; block < hidden / BLOCK; block++) {
      float scale = PlainFp8.loadScale(scales, block, kind);
      dequantiseBlock(source + (long) BLOCK * block, scale, target + 2L * BLOCK * block);
    }
  }

  private static void dequantiseBlock(long source, float scale, long target) {
    FloatVector factor = FloatVector.broadcast(FLOAT, scale);
    for (int at = 0; at < BLOCK; at += SHORT.length()) {
      ShortVector code =
          SHORTS.cast(
              HALF_BYTES
                  .cast(ByteVector.fromMemorySegment(HALF_BYTE, MEMORY, source + at, ORDER))
                  .convertShape(B2S, SHORT, 0));
      ShortVector magnitude = code.and(CODE_MAGNITUDE);
      ShortVector values =
          magnitude
              .lanewise(LSHL, 4)
              .add(REBIAS)
              .blend(magnitude.selectFrom(SUBNORMALS), magnitude.compare(LT, EIGHT))
              .or(code.and(CODE_SIGN))
              .blend(BF16_NAN, magnitude.compare(EQ, CODE_MAGNITUDE));
      IntVector pair = INTS.cast(values.reinterpretAsInts());
      FloatVector even = FLOATS.cast(pair.lanewise(LSHL, 16).reinterpretAsFloats()).mul(factor);
      FloatVector odd = FLOATS.cast(pair.and(UPPER).reinterpretAsFloats()).mul(factor);
      IntVector low = INTS.cast(even.blend(NAN, even.compare(NE, even)).reinterpretAsInts());
      IntVector high = INTS.cast(odd.blend(NAN, odd.compare(NE, odd)).reinterpretAsInts());
      low = low.add(low.lanewise(LSHR, 16).and(ONE)).add(BELOW_HALF);
      high = high.add(high.lanewise(LSHR, 16).and(ONE)).add(BELOW_HALF);
      low.lanewise(LSHR, 16).or(high.and(UPPER)).intoMemorySegment(MEMORY, target + 2L * at, ORDER);
    }
  }
}
