package org.ep4j.engine.host.kernel;

import static org.assertj.core.api.Assertions.assertThat;

import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.util.ArrayList;
import java.util.List;

/** Native memory for a test; the bytes before and after each piece must stay unchanged. */
final class GuardedMemory implements AutoCloseable {
  private static final int MARGIN = 64;
  private static final byte POISON = 0x5A;

  private final Arena arena = Arena.ofConfined();
  private final List<MemorySegment> pieces = new ArrayList<>();

  /** A poisoned piece. Its address is unaligned for every vector: {@code 64 n + 2}. */
  MemorySegment allocate(long bytes) {
    MemorySegment whole = arena.allocate(bytes + 2 * MARGIN, MARGIN);
    whole.fill(POISON);
    pieces.add(whole);
    return whole.asSlice(MARGIN + 2, bytes);
  }

  /** A piece with these 16-bit values. */
  MemorySegment shorts(short[] values) {
    MemorySegment piece = allocate(2L * values.length);
    MemorySegment.copy(values, 0, piece, ValueLayout.JAVA_SHORT_UNALIGNED, 0, values.length);
    return piece;
  }

  static short[] shorts(MemorySegment piece) {
    return piece.toArray(ValueLayout.JAVA_SHORT_UNALIGNED);
  }

  static byte[] bytes(MemorySegment piece) {
    return piece.toArray(ValueLayout.JAVA_BYTE);
  }

  void assertMarginsUntouched() {
    for (MemorySegment whole : pieces) {
      long end = whole.byteSize() - MARGIN + 2;
      for (long i = 0; i < whole.byteSize(); i++) {
        if (i < MARGIN + 2 || i >= end) {
          assertThat(whole.get(ValueLayout.JAVA_BYTE, i))
              .as("byte %d of a piece of %d", i - MARGIN - 2, whole.byteSize() - 2 * MARGIN)
              .isEqualTo(POISON);
        }
      }
    }
  }

  @Override
  public void close() {
    arena.close();
  }
}
