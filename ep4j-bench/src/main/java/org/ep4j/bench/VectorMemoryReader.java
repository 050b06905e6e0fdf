package org.ep4j.bench;

import java.lang.foreign.MemorySegment;
import java.nio.ByteOrder;
import jdk.incubator.vector.LongVector;
import jdk.incubator.vector.VectorOperators;
import jdk.incubator.vector.VectorSpecies;

/** Reads with vectors. A separate class, because loading it needs the incubator module. */
final class VectorMemoryReader implements MemoryReader {
  static final MemoryReader INSTANCE = new VectorMemoryReader();

  private static final VectorSpecies<Long> SPECIES = LongVector.SPECIES_PREFERRED;
  private static final ByteOrder ORDER = ByteOrder.nativeOrder();

  private VectorMemoryReader() {}

  @Override
  public long sum(MemorySegment memory, long from, long to) {
    int bytes = SPECIES.vectorByteSize();
    LongVector a = LongVector.zero(SPECIES);
    LongVector b = a;
    LongVector c = a;
    LongVector d = a;
    // Independent sums, so that only the memory limits the speed.
    for (long at = from; at < to; at += 4L * bytes) {
      a = a.add(LongVector.fromMemorySegment(SPECIES, memory, at, ORDER));
      b = b.add(LongVector.fromMemorySegment(SPECIES, memory, at + bytes, ORDER));
      c = c.add(LongVector.fromMemorySegment(SPECIES, memory, at + 2L * bytes, ORDER));
      d = d.add(LongVector.fromMemorySegment(SPECIES, memory, at + 3L * bytes, ORDER));
    }
    return a.add(b).add(c.add(d)).reduceLanes(VectorOperators.ADD);
  }
}
