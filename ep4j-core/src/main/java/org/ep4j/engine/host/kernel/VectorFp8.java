package org.ep4j.engine.host.kernel;

import static jdk.incubator.vector.VectorOperators.EQ;
import static jdk.incubator.vector.VectorOperators.GT;
import static jdk.incubator.vector.VectorOperators.I2S;
import static jdk.incubator.vector.VectorOperators.LSHL;
import static jdk.incubator.vector.VectorOperators.LSHR;
import static jdk.incubator.vector.VectorOperators.LT;
import static jdk.incubator.vector.VectorOperators.MAX;
import static jdk.incubator.vector.VectorOperators.ZERO_EXTEND_B2S;
import static org.ep4j.engine.host.kernel.Fp8.BLOCK;
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
import static org.ep4j.engine.host.kernel.VectorKernels.ORDER;
import static org.ep4j.engine.host.kernel.VectorKernels.SHORT;
import static org.ep4j.engine.host.kernel.VectorKernels.SHORTS;

import jdk.incubator.vector.ByteVector;
import jdk.incubator.vector.FloatVector;
import jdk.incubator.vector.IntVector;
import jdk.incubator.vector.ShortVector;
import org.ep4j.tensor.ScaleKind;

/** FP8 rows; {@link Fp8} defines the numbers. */
final class VectorFp8 {
  private static final int EXPONENT = 0x7F800000;
  private static final int SMALLEST_NORMAL = 121 << 23; // 2^-6

  /** Excess of {@link #encodeFinite} in the codes of an even and an odd element. */
  private static final int EXCESS = (20 << 23) + (SMALLEST_NORMAL >>> 20);

  private static final int EXCESS_OF_PAIR = EXCESS + (EXCESS << 8);

  /** bf16 bits of the multiples of 2^-9: the subnormals of E4M3. */
  private static final short[] SUBNORMALS = new short[SHORT.length()];

  static {
    for (int i = 0; i < 8; i++) {
      SUBNORMALS[i] = Fp8.toBf16((byte) i);
    }
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
    for (int at = 0; at < 2 * BLOCK; at += BYTES) {
      IntVector pair = INTS.cast(IntVector.fromMemorySegment(INT, MEMORY, source + at, ORDER));
      IntVector magnitude = pair.and(0x7FFF7FFF);
      FloatVector even =
          FLOATS.cast(magnitude.lanewise(LSHL, 16).reinterpretAsFloats()).mul(multiplier);
      FloatVector odd =
          FLOATS.cast(magnitude.and(0xFFFF0000).reinterpretAsFloats()).mul(multiplier);
      IntVector exponent = INTS.cast(even.reinterpretAsInts()).max(SMALLEST_NORMAL).and(EXPONENT);
      FloatVector sum =
          FLOATS
              .cast(exponent.reinterpretAsFloats())
              .fma(FloatVector.broadcast(FLOAT, 0x1p20f), even);
      IntVector low =
          INTS.cast(sum.reinterpretAsInts()).sub(exponent).add(exponent.lanewise(LSHR, 20));
      exponent = INTS.cast(odd.reinterpretAsInts()).max(SMALLEST_NORMAL).and(EXPONENT);
      sum =
          FLOATS
              .cast(exponent.reinterpretAsFloats())
              .fma(FloatVector.broadcast(FLOAT, 0x1p20f), odd);
      IntVector high =
          INTS.cast(sum.reinterpretAsInts()).sub(exponent).add(exponent.lanewise(LSHR, 20));
      IntVector sign = pair.lanewise(LSHR, 8).and(0x80).or(pair.lanewise(LSHR, 16).and(0x8000));
      IntVector codes = low.add(high.lanewise(LSHL, 8)).sub(EXCESS_OF_PAIR).or(sign);
      HALF_SHORTS
          .cast(codes.convertShape(I2S, HALF_SHORT, 0))
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
                  .convertShape(ZERO_EXTEND_B2S, SHORT, 0));
      ShortVector magnitude = code.and((short) 0x7F);
      magnitude
          .lanewise(LSHL, 4)
          .add((short) (120 << 7))
          .blend(
              magnitude.and((short) 7).selectFrom(ShortVector.fromArray(SHORT, SUBNORMALS, 0)),
              magnitude.compare(LT, (short) 8))
          .or(code.and((short) 0x80).lanewise(LSHL, 8))
          .blend(Bf16.NAN, magnitude.compare(EQ, (short) 0x7F))
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
    for (int at = 0; at < BLOCK; at += SHORT.length()) {
      ShortVector code =
          SHORTS.cast(
              HALF_BYTES
                  .cast(ByteVector.fromMemorySegment(HALF_BYTE, MEMORY, source + at, ORDER))
                  .convertShape(ZERO_EXTEND_B2S, SHORT, 0));
      ShortVector magnitude = code.and((short) 0x7F);
      ShortVector values =
          magnitude
              .lanewise(LSHL, 4)
              .add((short) (120 << 7))
              .blend(
                  magnitude.and((short) 7).selectFrom(ShortVector.fromArray(SHORT, SUBNORMALS, 0)),
                  magnitude.compare(LT, (short) 8))
              .or(code.and((short) 0x80).lanewise(LSHL, 8))
              .blend(Bf16.NAN, magnitude.compare(EQ, (short) 0x7F));
      IntVector pair = INTS.cast(values.reinterpretAsInts());
      FloatVector even = FLOATS.cast(pair.lanewise(LSHL, 16).reinterpretAsFloats()).mul(scale);
      FloatVector odd = FLOATS.cast(pair.and(0xFFFF0000).reinterpretAsFloats()).mul(scale);
      IntVector low = INTS.cast(even.reinterpretAsInts());
      IntVector high = INTS.cast(odd.reinterpretAsInts());
      low =
          low.add(low.lanewise(LSHR, 16).and(1))
              .add(0x7FFF)
              .blend(Fp32.NAN, low.and(0x7FFFFFFF).compare(GT, 0x7F800000));
      high =
          high.add(high.lanewise(LSHR, 16).and(1))
              .add(0x7FFF)
              .blend(Fp32.NAN, high.and(0x7FFFFFFF).compare(GT, 0x7F800000));
      low.lanewise(LSHR, 16)
          .or(high.and(0xFFFF0000))
          .intoMemorySegment(MEMORY, target + 2L * at, ORDER);
    }
  }
}
