package org.ep4j.engine.host.kernel;

import static jdk.incubator.vector.VectorOperators.GT;
import static jdk.incubator.vector.VectorOperators.I2B;
import static jdk.incubator.vector.VectorOperators.LSHL;
import static jdk.incubator.vector.VectorOperators.LSHR;
import static jdk.incubator.vector.VectorOperators.LT;
import static jdk.incubator.vector.VectorOperators.MAX;
import static jdk.incubator.vector.VectorOperators.ZERO_EXTEND_B2I;
import static org.ep4j.engine.host.kernel.NvFp4.BLOCK;
import static org.ep4j.engine.host.kernel.VectorKernels.MEMORY;
import static org.ep4j.engine.host.kernel.VectorKernels.ORDER;

import jdk.incubator.vector.ByteVector;
import jdk.incubator.vector.FloatVector;
import jdk.incubator.vector.IntVector;
import jdk.incubator.vector.ShortVector;
import jdk.incubator.vector.VectorShape;
import jdk.incubator.vector.VectorSpecies;
import org.ep4j.memory.NativeMemory;

/**
 * NVFP4 rows; {@link NvFp4} defines the numbers. A block is 256 bits of bf16, so wider vectors are
 * not used.
 */
final class VectorNvFp4 {
  private static final VectorShape SHAPE =
      VectorShape.forBitSize(Math.min(VectorKernels.BITS, 256));
  private static final VectorSpecies<Integer> INT = VectorSpecies.of(int.class, SHAPE);
  private static final VectorSpecies<Float> FLOAT = VectorSpecies.of(float.class, SHAPE);
  private static final VectorSpecies<Short> SHORT = VectorSpecies.of(short.class, SHAPE);
  private static final VectorSpecies<Byte> PACKED = ByteVector.SPECIES_64;

  private static final Class<? extends IntVector> INTS = IntVector.zero(INT).getClass();
  private static final Class<? extends FloatVector> FLOATS = FloatVector.zero(FLOAT).getClass();
  private static final Class<? extends ShortVector> SHORTS = ShortVector.zero(SHORT).getClass();
  private static final Class<? extends ByteVector> PACKEDS = ByteVector.zero(PACKED).getClass();

  /** Bytes of a vector, and of its values when packed. */
  private static final int BYTES = SHAPE.vectorBitSize() / Byte.SIZE;

  private static final int PACKED_BYTES = BYTES / 4;

  private static final int EXPONENT = 0x7F800000;
  private static final int SMALLEST_NORMAL = 127 << 23; // 1

  /** Excess of {@link #encodeFinite} in the codes of an even and an odd element. */
  private static final int EXCESS = (22 << 23) + (SMALLEST_NORMAL >>> 22);

  private static final int EXCESS_OF_PAIR = EXCESS + (EXCESS << 4);

  private VectorNvFp4() {}

  static int largest(long source, int elements) {
    int step = VectorKernels.SHORT.length();
    ShortVector largest = ShortVector.zero(VectorKernels.SHORT);
    int at = 0;
    for (; at <= elements - step; at += step) {
      largest =
          VectorKernels.SHORTS
              .cast(
                  ShortVector.fromMemorySegment(
                      VectorKernels.SHORT, MEMORY, source + 2L * at, ORDER))
              .and((short) 0x7FFF)
              .max(largest);
    }
    int result = VectorKernels.SHORTS.cast(largest).reduceLanes(MAX);
    return result > 0x7F80 // a NaN
        ? PlainNvFp4.largest(source, 0, elements)
        : Math.max(result, PlainNvFp4.largest(source, at, elements));
  }

  static void encode(long source, int hidden, float globalScale, long target, long scales) {
    for (int block = 0; block < hidden / BLOCK; block++) {
      long from = source + 2L * BLOCK * block;
      int largest = largestOfBlock(from);
      byte scale = NvFp4.scale(globalScale, Bf16.toFloat((short) largest));
      float multiplier = NvFp4.multiplier(globalScale, scale);
      if (largest < 0x7F80 && multiplier <= Float.MAX_VALUE) {
        NativeMemory.putByte(scales + block, scale);
        encodeFinite(from, target + (long) BLOCK / 2 * block, multiplier);
      } else { // an infinity or a NaN in the block, or in the result
        PlainNvFp4.encodeBlock(source, block, globalScale, target, scales);
      }
    }
  }

  private static int largestOfBlock(long source) {
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

  /** A block of finite values; the same rounding by addition as in {@link NvFp4#fromFloat}. */
  private static void encodeFinite(long source, long target, float multiplier) {
    for (int at = 0; at < 2 * BLOCK; at += BYTES) {
      IntVector pair = INTS.cast(IntVector.fromMemorySegment(INT, MEMORY, source + at, ORDER));
      FloatVector even =
          FLOATS
              .cast(pair.and(0x7FFF).lanewise(LSHL, 16).reinterpretAsFloats())
              .mul(multiplier)
              .min(NvFp4.MAX);
      FloatVector odd =
          FLOATS.cast(pair.and(0x7FFF0000).reinterpretAsFloats()).mul(multiplier).min(NvFp4.MAX);
      IntVector exponent = INTS.cast(even.reinterpretAsInts()).max(SMALLEST_NORMAL).and(EXPONENT);
      FloatVector sum =
          FLOATS
              .cast(exponent.reinterpretAsFloats())
              .fma(FloatVector.broadcast(FLOAT, 0x1p22f), even);
      IntVector low =
          INTS.cast(sum.reinterpretAsInts()).sub(exponent).add(exponent.lanewise(LSHR, 22));
      exponent = INTS.cast(odd.reinterpretAsInts()).max(SMALLEST_NORMAL).and(EXPONENT);
      sum =
          FLOATS
              .cast(exponent.reinterpretAsFloats())
              .fma(FloatVector.broadcast(FLOAT, 0x1p22f), odd);
      IntVector high =
          INTS.cast(sum.reinterpretAsInts()).sub(exponent).add(exponent.lanewise(LSHR, 22));
      IntVector sign = pair.lanewise(LSHR, 12).and(8).or(pair.lanewise(LSHR, 24).and(0x80));
      IntVector codes = low.add(high.lanewise(LSHL, 4)).sub(EXCESS_OF_PAIR).or(sign);
      ByteVector packed = PACKEDS.cast(codes.convertShape(I2B, PACKED, 0));
      if (PACKED_BYTES == Long.BYTES) {
        packed.intoMemorySegment(MEMORY, target + at / 4, ORDER);
      } else { // no vector has four bytes
        NativeMemory.putInt(target + at / 4, packed.reinterpretAsInts().lane(0));
      }
    }
  }

  static void dequantise(long source, long scales, float globalScale, int hidden, long target) {
    for (int block = 0; block < hidden / BLOCK; block++) {
      float factor = NvFp4.inverse(globalScale, NativeMemory.getByte(scales + block));
      dequantiseBlock(source + (long) BLOCK / 2 * block, factor, target + 2L * BLOCK * block);
    }
  }

  private static void dequantiseBlock(long source, float factor, long target) {
    ByteVector packed = PACKEDS.cast(ByteVector.fromMemorySegment(PACKED, MEMORY, source, ORDER));
    for (int part = 0; part < 2 * BLOCK / BYTES; part++) {
      IntVector pair = INTS.cast(packed.convertShape(ZERO_EXTEND_B2I, INT, part));
      // Codes 0 and 1 are 0 and 0.5; the others have their exponent in the upper two bits.
      IntVector code = pair.and(7);
      IntVector value =
          code.lanewise(LSHL, 22)
              .add(126 << 23)
              .blend(code.mul(126 << 23), code.compare(LT, 2))
              .or(pair.and(8).lanewise(LSHL, 28));
      FloatVector even = FLOATS.cast(value.reinterpretAsFloats()).mul(factor);
      code = pair.lanewise(LSHR, 4).and(7);
      value =
          code.lanewise(LSHL, 22)
              .add(126 << 23)
              .blend(code.mul(126 << 23), code.compare(LT, 2))
              .or(pair.and(0x80).lanewise(LSHL, 24));
      FloatVector odd = FLOATS.cast(value.reinterpretAsFloats()).mul(factor);
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
          .intoMemorySegment(MEMORY, target + (long) BYTES * part, ORDER);
    }
  }
}
