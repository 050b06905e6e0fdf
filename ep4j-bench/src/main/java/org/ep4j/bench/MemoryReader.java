package org.ep4j.bench;

import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;

/** Reads memory at full speed. */
interface MemoryReader {
  /** Step of a reader in bytes. */
  int BLOCK = 512;

  /** Reads from {@code from} to {@code to}, both multiples of {@link #BLOCK}; returns a sum. */
  long sum(MemorySegment memory, long from, long to);

  /** A reader with vectors if the JVM has them. */
  static MemoryReader best() {
    return ModuleLayer.boot().findModule("jdk.incubator.vector").isPresent()
        ? VectorMemoryReader.INSTANCE
        : MemoryReader::sumPlain;
  }

  private static long sumPlain(MemorySegment memory, long from, long to) {
    long a = 0;
    long b = 0;
    long c = 0;
    long d = 0;
    for (long at = from; at < to; at += 32) {
      a += memory.get(ValueLayout.JAVA_LONG_UNALIGNED, at);
      b += memory.get(ValueLayout.JAVA_LONG_UNALIGNED, at + 8);
      c += memory.get(ValueLayout.JAVA_LONG_UNALIGNED, at + 16);
      d += memory.get(ValueLayout.JAVA_LONG_UNALIGNED, at + 24);
    }
    return a + b + c + d;
  }
}
