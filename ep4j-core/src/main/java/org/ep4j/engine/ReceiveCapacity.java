package org.ep4j.engine;

import java.util.Objects;
import org.ep4j.BufferConfig;
import org.ep4j.ErrorCode;
import org.ep4j.ExpertPlacement;
import org.ep4j.InvalidArgumentException;

/** Number of rows of a receive region, the same for every engine. */
public final class ReceiveCapacity {
  private ReceiveCapacity() {}

  /**
   * {@link BufferConfig#maxReceiveRows()}, or the worst case of both layouts. {@code config} has a
   * placement.
   */
  public static int rows(BufferConfig config) {
    ExpertPlacement placement = Objects.requireNonNull(config.placement(), "settled placement");
    long needed = config.maxReceiveRows();
    if (needed == 0 && config.maxTokens() > 0) {
      long tokens = (long) placement.ranks() * config.maxTokens();
      int local = placement.maxLocalExperts();
      long grouped =
          tokens * Math.min(config.topK(), local) + (config.expertAlignment() - 1L) * local;
      needed = Math.max(tokens, grouped);
    }
    if (needed > Integer.MAX_VALUE) {
      throw new InvalidArgumentException(
          ErrorCode.RECEIVE_REGION_TOO_LARGE,
          "maxReceiveRows",
          needed + " rows" + (config.maxReceiveRows() == 0 ? " (worst case of maxTokens)" : ""),
          "at most " + Integer.MAX_VALUE,
          "set maxReceiveRows to what the batches need, or lower maxTokens");
    }
    return (int) needed;
  }
}
