package org.ep4j.engine.host.kernel;

import java.lang.foreign.MemorySegment;
import java.nio.ByteOrder;
import jdk.incubator.vector.ByteVector;
import jdk.incubator.vector.FloatVector;
import jdk.incubator.vector.IntVector;
import jdk.incubator.vector.ShortVector;
import jdk.incubator.vector.VectorShape;
import jdk.incubator.vector.VectorSpecies;
import org.ep4j.tensor.DType;
import org.ep4j.tensor.ScaleKind;

/**
 * The kernels with the Vector API, at the one width of this process, and the definitions that they
 * share: the species of that width and the memory they read.
 *
 * <p>Rules for a vector kernel, so that C2 keeps vectors in registers (else each operation
 * allocates, silently, and a kernel runs ten times slower; tests count allocated bytes and nodes):
 *
 * <ul>
 *   <li>Species, order and memory are {@code static final}. A vector may be, as an argument of an
 *       operation; it is then a load from memory. A method creates the vector that starts an
 *       accumulator ({@code FloatVector.zero(FLOAT)}).
 *   <li>No vector is a parameter or the result of a method of ep4j: whether C2 inlines such a
 *       method depends on profiles. It always inlines the methods of the Vector API.
 *   <li>An operation costs C2 300 to 500 nodes, one with a scalar argument 270 more. Once it has
 *       created 18000 for a method, it no longer inlines the accessors within an operation: the
 *       operation during which that happens allocates. So a kernel stays below 14500, and constants
 *       are vectors. Even and odd elements pass through the same code in a loop of two steps: C2
 *       unrolls it after it has inlined.
 *   <li>A kernel of more than 9000 nodes has more than 325 bytes of bytecode ({@code
 *       FreqInlineSize}), so that no caller inlines it beside another. Where the body is shorter,
 *       constants are local variables, or arguments have casts.
 *   <li>The receiver of an operation has its exact class. To C2, while it parses, the result of a
 *       load, a reinterpretation, a conversion or a broadcast, and a loop variable, are only {@code
 *       IntVector}s; it then inlines by the profile of the Vector API's own code, which all users
 *       in the process share. As soon as any code uses vectors of another width, C2 inlines both
 *       and boxes. A cast to {@link #INTS} or a similar class costs nothing and fixes the class;
 *       arguments need none.
 *   <li>A kernel loads a row of 16-bit values as 32-bit lanes: the even elements are the lower
 *       halves, the odd ones the upper halves, and no element ever crosses a lane.
 * </ul>
 */
final class VectorKernels extends RowKernels {
  /** All of native memory: offsets are addresses. Must not leave this package. */
  @SuppressWarnings("restricted") // the purpose of the class
  static final MemorySegment MEMORY = MemorySegment.NULL.reinterpret(Long.MAX_VALUE);

  static final ByteOrder ORDER = ByteOrder.LITTLE_ENDIAN;

  private static final VectorShape SHAPE =
      VectorShape.forBitSize(
          KernelChoice.BITS != KernelChoice.AUTO
              ? KernelChoice.BITS
              : Math.clamp(VectorShape.preferredShape().vectorBitSize(), 128, 512));

  /** Bits of a vector. */
  static final int BITS = SHAPE.vectorBitSize();

  /** Bytes of a vector. */
  static final int BYTES = BITS / Byte.SIZE;

  static final VectorSpecies<Integer> INT = VectorSpecies.of(int.class, SHAPE);
  static final VectorSpecies<Float> FLOAT = VectorSpecies.of(float.class, SHAPE);

  static final VectorSpecies<Short> SHORT = VectorSpecies.of(short.class, SHAPE);

  /** Half a vector of 16-bit values: as many lanes as {@link #INT}. */
  static final VectorSpecies<Short> HALF_SHORT =
      VectorSpecies.of(short.class, VectorShape.forBitSize(BITS / 2));

  /** Half a vector of bytes: as many lanes as {@link #SHORT}. */
  static final VectorSpecies<Byte> HALF_BYTE =
      VectorSpecies.of(byte.class, VectorShape.forBitSize(BITS / 2));

  /** The exact classes of vectors, for casts of receivers. */
  static final Class<? extends IntVector> INTS = IntVector.zero(INT).getClass();

  static final Class<? extends FloatVector> FLOATS = FloatVector.zero(FLOAT).getClass();
  static final Class<? extends ShortVector> SHORTS = ShortVector.zero(SHORT).getClass();
  static final Class<? extends ByteVector> HALF_BYTES = ByteVector.zero(HALF_BYTE).getClass();
  static final Class<? extends ShortVector> HALF_SHORTS = ShortVector.zero(HALF_SHORT).getClass();

  /** The upper halves of lanes: the odd elements of a row of 16-bit values. */
  static final IntVector UPPER = IntVector.broadcast(INT, 0xFFFF0000);

  static final IntVector ONE = IntVector.broadcast(INT, 1);

  /** Just below half of the last bit that bfloat16 keeps of a float32. */
  static final IntVector BELOW_HALF = IntVector.broadcast(INT, 0x7FFF);

  /** A NaN that rounds to {@link Bf16#NAN}. */
  static final FloatVector NAN = FloatVector.broadcast(FLOAT, Float.intBitsToFloat(Bf16.NAN << 16));

  private static final LogFmtRows LOG_FMT = new VectorLogFmt();

  @Override
  public int vectorBits() {
    return BITS;
  }

  @Override
  public void reduceRows(DType type, long[] rows, int count, long out, int elements) {
    switch (type) {
      case BF16 -> VectorBf16Sums.rows(rows, count, out, elements);
      case FP16 -> VectorFp16Sums.rows(rows, count, out, elements);
      case FP32 -> VectorFp32Sums.rows(rows, count, out, elements);
      default -> throw PlainSums.notSummable(type);
    }
  }

  @Override
  public void reduceGroups(
      DType type,
      long[] rows,
      int[] groupEnd,
      int groups,
      boolean partialRounding,
      long out,
      int elements) {
    switch (type) {
      case BF16 -> VectorBf16Sums.groups(rows, groupEnd, groups, partialRounding, out, elements);
      case FP16 -> VectorFp16Sums.groups(rows, groupEnd, groups, partialRounding, out, elements);
      case FP32 -> VectorFp32Sums.groups(rows, groupEnd, groups, out, elements);
      default -> throw PlainSums.notSummable(type);
    }
  }

  @Override
  public void reduceScaledGroups(
      DType type,
      long[] rows,
      float[] weights,
      int[] groupEnd,
      int groups,
      boolean partialRounding,
      long out,
      int elements) {
    switch (type) {
      case BF16 ->
          VectorBf16WeightedSums.scaledGroups(
              rows, weights, groupEnd, groups, partialRounding, out, elements);
      case FP16 ->
          VectorFp16Sums.scaledGroups(
              rows, weights, groupEnd, groups, partialRounding, out, elements);
      case FP32 -> VectorFp32Sums.scaledGroups(rows, weights, groupEnd, groups, out, elements);
      default -> throw PlainSums.notSummable(type);
    }
  }

  @Override
  public void weightedReduce(
      DType type, long[] rows, float[] weights, int count, long out, int elements) {
    switch (type) {
      case BF16 -> VectorBf16WeightedSums.rows(rows, weights, count, out, elements);
      case FP16 -> VectorFp16Sums.weightedRows(rows, weights, count, out, elements);
      case FP32 -> VectorFp32Sums.weightedRows(rows, weights, count, out, elements);
      default -> throw PlainSums.notSummable(type);
    }
  }

  @Override
  public void weightedReduceGroups(
      long[] rows, float[] weights, int[] groupEnd, int groups, long out, int elements) {
    VectorBf16WeightedSums.groups(rows, weights, groupEnd, groups, out, elements);
  }

  @Override
  public void encodeFp8(long source, int hidden, long target, long scales, ScaleKind kind) {
    VectorFp8.encode(source, hidden, target, scales, kind);
  }

  @Override
  public void decodeFp8(long source, int hidden, long target) {
    VectorFp8.decode(source, hidden, target);
  }

  @Override
  public void dequantiseFp8(long source, long scales, ScaleKind kind, int hidden, long target) {
    VectorFp8.dequantise(source, scales, kind, hidden, target);
  }

  @Override
  public float largestMagnitude(long source, int elements) {
    return Bf16.toFloat((short) VectorNvFp4.largest(source, elements));
  }

  @Override
  public void encodeNvFp4(long source, int hidden, float globalScale, long target, long scales) {
    VectorNvFp4.encode(source, hidden, globalScale, target, scales);
  }

  @Override
  public void dequantiseNvFp4(
      long source, long scales, float globalScale, int hidden, long target) {
    VectorNvFp4.dequantise(source, scales, globalScale, hidden, target);
  }

  @Override
  public int encodeLogFmt(long source, int hidden, long target) {
    return LOG_FMT.encode(source, hidden, target);
  }

  @Override
  public void decodeLogFmt(long source, int hidden, long target) {
    LOG_FMT.decode(source, hidden, target);
  }
}
