package org.ep4j.engine.host.lowlatency;

import org.ep4j.engine.DebugMode;
import org.ep4j.memory.NativeMemory;
import org.ep4j.tensor.Tensor;
import org.jspecify.annotations.Nullable;

/** Debug mode: overwrites low-latency results when they become outdated. */
final class OutdatedResults {
  private final LowLatencyMemory memory;

  /** For each half, the last dispatch that was received into it. */
  private final @Nullable LowLatencyDispatchOperation[] received =
      new LowLatencyDispatchOperation[2];

  /** For each half, the bytes of valid sums. */
  private final long[] sums = new long[2];

  OutdatedResults(LowLatencyMemory memory) {
    this.memory = memory;
  }

  void received(LowLatencyDispatchOperation op) {
    received[op.flight.half()] = op;
  }

  /** Overwrites the rows of a half: their dispatch is the second last and complete. */
  void outdateRows(int half) {
    LowLatencyDispatchOperation op = received[half];
    if (op == null) {
      return;
    }
    received[half] = null;
    LowLatencyRecord record = op.record;
    long rowBytes = op.format.rowBytes();
    for (int source = 0; source < record.received.length; source++) {
      for (int i = 0; i < record.received[source]; i++) {
        long row = record.rows[source][i];
        NativeMemory.fill(op.out().rows() + row * rowBytes, rowBytes, DebugMode.POISON);
        NativeMemory.fill(
            op.out().sourceTokens() + row * Integer.BYTES, Integer.BYTES, DebugMode.POISON);
      }
    }
  }

  /** Overwrites the sums of a half, of which the next combine fills {@code bytes}. */
  void outdateSums(int half, long bytes) {
    NativeMemory.fill(memory.half(half).sums(), sums[half], DebugMode.POISON);
    sums[half] = bytes;
  }

  /** Requires that received rows are those of the handle's dispatch. */
  void requireOf(LowLatencyDispatchOperation handle, Tensor y) {
    int other = 1 - handle.flight.half();
    LowLatencyMemory.Half half = memory.half(other);
    if (y.nativeHost() && y.address() >= half.rows() && y.address() < half.scales()) {
      LowLatencyDispatchOperation op = received[other];
      throw DebugMode.rowsOfOtherHandle(
          y, op == null ? "an outdated dispatch" : op.flight.toString(), handle.flight.toString());
    }
  }
}
