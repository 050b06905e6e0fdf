package org.ep4j.engine.host.kernel;

import static jdk.incubator.vector.VectorOperators.I2B;
import static jdk.incubator.vector.VectorOperators.LSHL;
import static jdk.incubator.vector.VectorOperators.LSHR;
import static jdk.incubator.vector.VectorOperators.LT;
import static jdk.incubator.vector.VectorOperators.MAX;
import static jdk.incubator.vector.VectorOperators.NE;
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

  private static final int SMALLEST_NORMAL_BITS = 127 << 23; // 1

  /** Excess of {@link #encodeFinite} in the codes of an even and an odd element. */
  private static final int EXCESS = (22 << 23) + (SMALLEST_NORMAL_BITS >>> 22);

  private static final IntVector EXCESS_OF_PAIR = IntVector.broadcast(INT, EXCESS + (EXCESS << 4));
  private static final IntVector SMALLEST_NORMAL = IntVector.broadcast(INT, SMALLEST_NORMAL_BITS);
  private static final IntVector EXPONENT = IntVector.broadcast(INT, 0x7F800000);
  private static final IntVector MAGNITUDE = IntVector.broadcast(INT, 0x7FFF0000);
  private static final IntVector SIGN_OF_EVEN = IntVector.broadcast(INT, 8);
  private static final IntVector SIGN_OF_ODD = IntVector.broadcast(INT, 0x80);
  private static final FloatVector LARGEST = FloatVector.broadcast(FLOAT, NvFp4.MAX);
  private static final FloatVector ROUNDING = FloatVector.broadcast(FLOAT, 0x1p22f);

  /** Four bytes of an int in four lanes: each factor moves one byte to the top of its lane. */
  private static final IntVector BYTE_TO_TOP =
      IntVector.fromArray(INT, new int[] {1 << 24, 1 << 16, 1 << 8, 1, 0, 0, 0, 0}, 0);

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
    FloatVector factor = FloatVector.broadcast(FLOAT, multiplier);
    for (int at = 0; at < 2 * BLOCK; at += BYTES) {
      IntVector pair = INTS.cast(IntVector.fromMemorySegment(INT, MEMORY, source + at, ORDER));
      IntVector codes =
          pair.lanewise(LSHR, 12)
              .and(SIGN_OF_EVEN)
              .or(pair.lanewise(LSHR, 24).and(SIGN_OF_ODD))
              .sub(EXCESS_OF_PAIR);
      IntVector bits = pair.lanewise(LSHL, 16);
      for (int shift = 0; shift <= 4; shift += 4) { // even, odd
        FloatVector value =
            FLOATS
                .cast(INTS.cast(bits).and(MAGNITUDE).reinterpretAsFloats())
                .mul(factor)
                .min(LARGEST);
        IntVector exponent =
            INTS.cast(value.reinterpretAsInts()).max(SMALLEST_NORMAL).and(EXPONENT);
        FloatVector sum = FLOATS.cast(exponent.reinterpretAsFloats()).fma(ROUNDING, value);
        codes =
            INTS.cast(sum.reinterpretAsInts())
                .sub(exponent)
                .add(exponent.lanewise(LSHR, 22))
                .lanewise(LSHL, shift)
                .add(codes);
        bits = pair;
      }
      ByteVector packed = PACKEDS.cast(INTS.cast(codes).convertShape(I2B, PACKED, 0));
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
    IntVector codeMagnitude = IntVector.broadcast(INT, 7);
    IntVector signOfEven = IntVector.broadcast(INT, 8);
    IntVector pointFive = IntVector.broadcast(INT, 126 << 23);
    IntVector belowHalf = IntVector.broadcast(INT, 0x7FFF);
    IntVector upper = IntVector.broadcast(INT, 0xFFFF0000);
    IntVector two = IntVector.broadcast(INT, 2);
    IntVector one = IntVector.broadcast(INT, 1);
    FloatVector nan = FloatVector.broadcast(FLOAT, Float.intBitsToFloat(Bf16.NAN << 16));
    FloatVector scale = FloatVector.broadcast(FLOAT, factor);
    for (int part = 0; part < 2 * BLOCK / BYTES; part++) {
      long from = source + (long) PACKED_BYTES * part;
      IntVector pair =
          PACKED_BYTES == Long.BYTES
              ? INTS.cast(
                  PACKEDS
                      .cast(ByteVector.fromMemorySegment(PACKED, MEMORY, from, ORDER))
                      .convertShape(ZERO_EXTEND_B2I, INT, 0))
              : INTS.cast(IntVector.broadcast(INT, NativeMemory.getInt(from)))
                  .mul(BYTE_TO_TOP)
                  .lanewise(LSHR, 24);
      IntVector codes = pair;
      IntVector result = IntVector.zero(INT);
      for (int half = 0; half < 2; half++) { // even, odd
        // Codes 0 and 1 are 0 and 0.5; the others have their exponent in the upper two bits.
        IntVector code = INTS.cast(codes).and(codeMagnitude);
        IntVector bits =
            code.lanewise(LSHL, 22)
                .add(pointFive)
                .blend(code.mul(pointFive), code.compare(LT, two))
                .or(INTS.cast(codes).and(signOfEven).lanewise(LSHL, 28));
        FloatVector value = FLOATS.cast(bits.reinterpretAsFloats()).mul(scale);
        bits = INTS.cast(value.blend(nan, value.compare(NE, value)).reinterpretAsInts());
        bits = bits.add(bits.lanewise(LSHR, 16).and(one)).add(belowHalf);
        result = INTS.cast(result).lanewise(LSHR, 16).or(bits.and(upper));
        codes = pair.lanewise(LSHR, 4);
      }
      INTS.cast(result).intoMemorySegment(MEMORY, target + (long) BYTES * part, ORDER);
    }
  }
}
