package org.ep4j.engine;

import java.util.Objects;
import org.ep4j.config.BufferConfig;
import org.ep4j.error.ErrorCode;
import org.ep4j.routing.ExpertPlacement;
import org.jspecify.annotations.Nullable;

/**
 * The experts of calls that have fewer of them than the buffer. Such a call numbers its experts in
 * blocks, the same number on each rank, and expert {@code i} of a rank stands for the {@code i}th
 * expert that the buffer has there. So memory, kernels and wires see only experts of the buffer:
 * ids are translated where they enter, and results show only the first groups. Used by one thread
 * at a time.
 */
public final class CallExperts {
  private final ExpertPlacement placement;
  private final int rank;

  /** Experts of a call on the rank with the fewest experts. */
  private final int max;

  /** The last number of experts other than the buffer's, and its translation. */
  private int last;

  private int[] ofBuffer = {};

  /** The experts of the calls of one rank. */
  public CallExperts(BufferConfig config, int rank) {
    placement = Objects.requireNonNull(config.placement(), "settled placement");
    this.rank = rank;
    int fewest = Integer.MAX_VALUE;
    for (int r = 0; r < placement.ranks(); r++) {
      fewest = Math.min(fewest, placement.localExperts(r));
    }
    max = fewest;
  }

  /**
   * The number of experts of a call.
   *
   * @param wanted the option; 0: those of the buffer
   * @throws org.ep4j.error.InvalidArgumentException if the buffer cannot serve that number
   */
  public int number(int wanted) {
    if (wanted == 0 || isOfBuffer(wanted)) {
      return placement.experts();
    }
    int ranks = placement.ranks();
    if (wanted < 0 || wanted % ranks != 0 || wanted / ranks > max) {
      throw Arguments.invalid(
          ErrorCode.CALL_EXPERTS,
          "experts",
          wanted,
          placement.experts()
              + " (BufferConfig.experts), or a multiple of "
              + ranks
              + " (ranks) of at most "
              + max * ranks,
          max == 0
              ? "place experts of the buffer on every rank"
              : "pass such a number, or open the buffer with more experts");
    }
    return wanted;
  }

  /** Whether a call has the experts of the buffer. */
  public boolean isOfBuffer(int experts) {
    return experts == placement.experts();
  }

  /** Experts of this rank in a call. */
  public int local(int experts) {
    return isOfBuffer(experts) ? placement.localExperts(rank) : experts / placement.ranks();
  }

  /**
   * For each expert of a call, the expert of the buffer that it stands for; null: itself. The array
   * does not change.
   */
  public int @Nullable [] ofBuffer(int experts) {
    if (isOfBuffer(experts)) {
      return null;
    }
    if (last != experts) {
      int[] translated = new int[experts];
      int each = experts / placement.ranks();
      for (int e = 0; e < experts; e++) {
        translated[e] = placement.expertAt(e / each, e % each);
      }
      ofBuffer = translated;
      last = experts;
    }
    return ofBuffer;
  }
}
