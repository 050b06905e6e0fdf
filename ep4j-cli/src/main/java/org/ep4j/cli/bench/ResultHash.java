package org.ep4j.cli.bench;

import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.util.zip.CRC32C;
import org.ep4j.tensor.Tensor;

/** A hash of results: equal results have equal hashes. */
final class ResultHash {
  /** A byte buffer has fewer bytes than 2 GiB. */
  private static final long PIECE = 1L << 30;

  private final CRC32C sum = new CRC32C();

  /** Adds all bytes of a tensor, which may be on a device. */
  void add(Tensor tensor) {
    try (Arena arena = Arena.ofConfined()) {
      MemorySegment bytes = tensor.onHost(arena).segment();
      for (long at = 0; at < bytes.byteSize(); at += PIECE) {
        sum.update(bytes.asSlice(at, Math.min(PIECE, bytes.byteSize() - at)).asByteBuffer());
      }
    }
  }

  /** The hash of all bytes so far. */
  long value() {
    return sum.getValue();
  }
}
