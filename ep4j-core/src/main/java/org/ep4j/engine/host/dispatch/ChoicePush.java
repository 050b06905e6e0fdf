package org.ep4j.engine.host.dispatch;

import org.ep4j.engine.host.context.ExpertTable;
import org.ep4j.engine.host.context.Payload;
import org.ep4j.memory.NativeMemory;

/**
 * One worker's part of sending the choices of FLAT rows: each target gets the local numbers and the
 * weights of its own experts, and -1 and 0 for all others. The worker clears the entries of a
 * target when it gets the row, then writes each choice to the one target of that choice: the work
 * grows with targets plus choices, not with their product.
 */
final class ChoicePush {
  private final ExpertTable table;
  private final Payload payload;

  /** Addresses of the receive arrays of each rank. */
  private final long[] topkIdx;

  private final long[] topkWeights;

  /** Number of tokens so far, including the current one. */
  private long number;

  /** For each rank, the number of its last token, and the slot. */
  private final long[] numberAt;

  private final long[] slotAt;

  ChoicePush(ExpertTable table, Payload payload, long[] topkIdx, long[] topkWeights) {
    this.table = table;
    this.payload = payload;
    this.topkIdx = topkIdx;
    this.topkWeights = topkWeights;
    numberAt = new long[topkIdx.length];
    slotAt = new long[topkIdx.length];
  }

  /** Begins a token. */
  void begin() {
    number++;
  }

  /** Sends the token to {@code slot} of {@code target}. */
  void to(int target, long slot, int topK) {
    numberAt[target] = number;
    slotAt[target] = slot;
    long idx = topkIdx[target] + slot * topK * 8;
    for (int k = 0; k < topK; k++) {
      NativeMemory.putLong(idx + k * 8L, -1);
    }
    if (payload.weights != 0) {
      long weights = topkWeights[target] + slot * topK * 4;
      for (int k = 0; k < topK; k++) {
        NativeMemory.putInt(weights + k * 4L, 0);
      }
    }
  }

  /**
   * Writes the choices of {@code token} to the targets passed to {@link #to} since {@link #begin}.
   */
  void send(int token, int topK) {
    long choice = (long) token * topK;
    for (int k = 0; k < topK; k++) {
      long id =
          payload.wideIds
              ? NativeMemory.getLong(payload.ids + (choice + k) * 8)
              : NativeMemory.getInt(payload.ids + (choice + k) * 4);
      if (id < 0) {
        continue;
      }
      int expert = (int) id;
      int target = table.rankOf[expert];
      if (numberAt[target] != number) {
        continue; // the target has no room for the row
      }
      long place = slotAt[target] * topK + k;
      NativeMemory.putLong(topkIdx[target] + place * 8, table.localOf[expert]);
      if (payload.weights != 0) {
        NativeMemory.putInt(
            topkWeights[target] + place * 4,
            NativeMemory.getInt(payload.weights + (choice + k) * 4));
      }
    }
  }
}
