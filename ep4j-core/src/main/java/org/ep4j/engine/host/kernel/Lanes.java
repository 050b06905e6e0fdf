package org.ep4j.engine.host.kernel;

import java.lang.foreign.MemorySegment;
import java.nio.ByteOrder;
import jdk.incubator.vector.ByteVector;
import jdk.incubator.vector.FloatVector;
import jdk.incubator.vector.IntVector;
import jdk.incubator.vector.ShortVector;
import jdk.incubator.vector.VectorShape;
import jdk.incubator.vector.VectorSpecies;

/**
 * Definitions that all vector kernels share: the species of the chosen width and the memory they
 * read.
 *
 * <p>Rules for a vector kernel, so that C2 keeps vectors in registers (else each operation
 * allocates, silently, and a kernel runs ten times slower; a test counts allocated bytes):
 *
 * <ul>
 *   <li>Species, order and memory are {@code static final}. Vectors never are: a method creates the
 *       vector that starts an accumulator ({@code FloatVector.zero(FLOAT)}).
 *   <li>Bodies are flat. C2 always inlines methods of the Vector API, but not helpers of ep4j once
 *       it has seen 18000 nodes in a method, and a few dozen vector operations suffice for that.
 *       Use a helper only early in a method.
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
final class Lanes {
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

  private Lanes() {}

  static IntVector loadInts(long address) {
    return INTS.cast(IntVector.fromMemorySegment(INT, MEMORY, address, ORDER));
  }

  static FloatVector loadFloats(long address) {
    return FLOATS.cast(FloatVector.fromMemorySegment(FLOAT, MEMORY, address, ORDER));
  }

  static ShortVector loadHalfShorts(long address) {
    return HALF_SHORTS.cast(ShortVector.fromMemorySegment(HALF_SHORT, MEMORY, address, ORDER));
  }
}
