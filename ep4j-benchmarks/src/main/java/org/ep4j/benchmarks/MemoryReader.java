package org.ep4j.benchmarks;

import java.lang.foreign.MemorySegment;
import java.nio.ByteOrder;
import jdk.incubator.vector.LongVector;
import jdk.incubator.vector.VectorSpecies;

/**
 * Reads memory at the maximum speed of one thread: independent sums, so that only memory limits.
 */
final class MemoryReader {
  private static final VectorSpecies<Long> LONGS = LongVector.SPECIES_PREFERRED;
  private static final ByteOrder ORDER = ByteOrder.LITTLE_ENDIAN;

  private MemoryReader() {}

  /** A number that depends on all bytes. */
  static long read(MemorySegment memory) {
    LongVector a = LongVector.zero(LONGS);
    LongVector b = LongVector.zero(LONGS);
    LongVector c = LongVector.zero(LONGS);
    LongVector d = LongVector.zero(LONGS);
    long vector = LONGS.vectorByteSize();
    long end = memory.byteSize() / (4 * vector) * (4 * vector);
    for (long at = 0; at < end; at += 4 * vector) {
      a = a.add(LongVector.fromMemorySegment(LONGS, memory, at, ORDER));
      b = b.add(LongVector.fromMemorySegment(LONGS, memory, at + vector, ORDER));
      c = c.add(LongVector.fromMemorySegment(LONGS, memory, at + 2 * vector, ORDER));
      d = d.add(LongVector.fromMemorySegment(LONGS, memory, at + 3 * vector, ORDER));
    }
    long sum = a.add(b).add(c.add(d)).reduceLanes(jdk.incubator.vector.VectorOperators.ADD);
    for (long at = end; at < memory.byteSize(); at++) {
      sum += memory.get(java.lang.foreign.ValueLayout.JAVA_BYTE, at);
    }
    return sum;
  }
}
