package org.ep4j.moe;

import static org.assertj.core.api.Assertions.assertThat;

import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.util.HashMap;
import java.util.Map;
import java.util.Objects;

/**
 * Memory of the host for kernels in the emulator: its content is garbage at first, and a write
 * beyond its end is found.
 */
final class GuardedMemory implements AutoCloseable {
  private static final int ALIGNMENT = 256;
  private static final int GUARD = 256;
  private static final byte RUBBISH = (byte) 0xa5;
  private static final byte GUARDED = (byte) 0xc3;

  private final Arena arena = Arena.ofShared();
  private final Map<Long, MemorySegment> parts = new HashMap<>();

  synchronized MemorySegment allocate(long bytes) {
    MemorySegment all = arena.allocate(bytes + GUARD, ALIGNMENT);
    all.asSlice(0, bytes).fill(RUBBISH);
    all.asSlice(bytes).fill(GUARDED);
    MemorySegment part = all.asSlice(0, bytes);
    parts.put(part.address(), all);
    return part;
  }

  MemorySegment of(float... values) {
    MemorySegment part = allocate((long) values.length * Float.BYTES);
    MemorySegment.copy(values, 0, part, ValueLayout.JAVA_FLOAT, 0, values.length);
    return part;
  }

  MemorySegment of(int... values) {
    MemorySegment part = allocate((long) values.length * Integer.BYTES);
    MemorySegment.copy(values, 0, part, ValueLayout.JAVA_INT, 0, values.length);
    return part;
  }

  MemorySegment of(short... values) {
    MemorySegment part = allocate((long) values.length * Short.BYTES);
    MemorySegment.copy(values, 0, part, ValueLayout.JAVA_SHORT, 0, values.length);
    return part;
  }

  MemorySegment of(long... values) {
    MemorySegment part = allocate((long) values.length * Long.BYTES);
    MemorySegment.copy(values, 0, part, ValueLayout.JAVA_LONG, 0, values.length);
    return part;
  }

  /** The part from its first byte to its end. */
  synchronized MemorySegment at(long address) {
    MemorySegment all = parts.get(address);
    assertThat(all).as("memory at %x", address).isNotNull();
    return all.asSlice(0, all.byteSize() - GUARD);
  }

  /** Fails if something was written behind a part. */
  synchronized void check() {
    parts.values().forEach(GuardedMemory::check);
  }

  private static void check(MemorySegment all) {
    for (long i = all.byteSize() - GUARD; i < all.byteSize(); i++) {
      assertThat(all.get(ValueLayout.JAVA_BYTE, i)).as("byte behind memory").isEqualTo(GUARDED);
    }
  }

  /** No part has this address any more; its end is checked. */
  synchronized void release(long address) {
    check(Objects.requireNonNull(parts.remove(address)));
  }

  @Override
  public void close() {
    try {
      check();
    } finally {
      arena.close();
    }
  }
}
