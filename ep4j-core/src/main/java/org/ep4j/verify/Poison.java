package org.ep4j.verify;

import java.lang.foreign.MemorySegment;
import org.ep4j.Combine;
import org.ep4j.Dispatch;
import org.ep4j.LowLatencyDispatch;
import org.ep4j.Tensor;
import org.jspecify.annotations.Nullable;

/**
 * Fills memory with a pattern before it is written, so that a byte an operation forgets cannot be
 * right by chance. The pattern is no count, no index and no value that the generators make.
 */
public final class Poison {
  /** The pattern. */
  public static final byte BYTE = (byte) 0xFD;

  private Poison() {}

  /** Poisons a segment. */
  public static void fill(MemorySegment memory) {
    memory.fill(BYTE);
  }

  /** Poisons a tensor; null is none. */
  public static void fill(@Nullable Tensor tensor) {
    if (tensor != null) {
      HostCopy.write(tensor, Poison::fill);
    }
  }

  /**
   * Poisons everything that a dispatch delivered. Its rows are gone; its handle must still work,
   * because a handle outlives the rows.
   */
  public static void fill(Dispatch delivered) {
    fill(delivered.x());
    fill(delivered.scales());
    fill(delivered.globalScales());
    fill(delivered.topkIdx());
    fill(delivered.topkWeights());
    fill(delivered.alignedCounts());
    fill(delivered.counts());
    fill(delivered.expertOffsets());
    fill(delivered.rankOffsets());
    fill(delivered.sourceTokens());
    fill(delivered.sourceRanks());
  }

  /** Poisons what a combine delivered. */
  public static void fill(Combine delivered) {
    fill(delivered.x());
    fill(delivered.topkWeights());
  }

  /** Poisons the rows of a low-latency dispatch, not its handle. */
  public static void fill(LowLatencyDispatch delivered) {
    fill(delivered.x());
    fill(delivered.scales());
    fill(delivered.counts());
    fill(delivered.topkIdx());
    fill(delivered.topkWeights());
  }
}
