package org.ep4j.verify;

import java.lang.foreign.MemorySegment;
import org.ep4j.Combine;
import org.ep4j.Dispatch;
import org.ep4j.FlatDispatch;
import org.ep4j.GroupedDispatch;
import org.ep4j.LowLatencyDispatch;
import org.ep4j.RankMajorDispatch;
import org.ep4j.tensor.Tensor;
import org.jspecify.annotations.Nullable;

/**
 * Fills memory with a pattern before an operation writes it, so that an unwritten byte cannot be
 * right by chance. The pattern is no count, no index and no value of the generators.
 */
public final class Poison {
  /** The pattern. */
  public static final byte BYTE = (byte) 0xFD;

  private Poison() {}

  /** Poisons a segment. */
  public static void fill(MemorySegment memory) {
    memory.fill(BYTE);
  }

  /** Poisons a tensor; null is ignored. */
  public static void fill(@Nullable Tensor tensor) {
    if (tensor != null) {
      HostCopy.write(tensor, Poison::fill);
    }
  }

  /**
   * Poisons all outputs of a dispatch. Its handle must still work, because a handle outlives the
   * rows.
   */
  public static void fill(Dispatch delivered) {
    fill(delivered.x());
    fill(Outputs.scales(delivered));
    fill(Outputs.globalScales(delivered));
    if (delivered instanceof FlatDispatch flat) {
      if (flat.hasChoices()) {
        fill(flat.topkIdx());
      }
      fill(flat.rankOffsets());
    }
    if (delivered instanceof GroupedDispatch grouped) {
      fill(grouped.expertOffsets());
    }
    fill(Outputs.weights(delivered));
    fill(delivered.alignedCounts());
    fill(delivered.counts());
    fill(delivered.sourceTokens());
    fill(delivered.sourceRanks());
  }

  /** Poisons the outputs of a combine. */
  public static void fill(Combine delivered) {
    fill(delivered.x());
    fill(Outputs.weights(delivered));
  }

  /** Poisons the rows of a low-latency dispatch, but not its handle. */
  public static void fill(LowLatencyDispatch delivered) {
    fill(delivered.x());
    fill(Outputs.scales(delivered));
    fill(delivered.counts());
    if (delivered instanceof RankMajorDispatch byRank) {
      fill(byRank.topkIdx());
    }
    fill(Outputs.weights(delivered));
  }
}
