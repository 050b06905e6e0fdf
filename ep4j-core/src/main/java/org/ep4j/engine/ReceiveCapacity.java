package org.ep4j.engine;

import java.util.Objects;
import org.ep4j.BufferConfig;
import org.ep4j.ErrorCode;
import org.ep4j.ExpertPlacement;
import org.ep4j.HighThroughputConfig;
import org.ep4j.InvalidArgumentException;

/** Number of rows of a receive region, the same for every engine. */
public final class ReceiveCapacity {
  private ReceiveCapacity() {}

  /**
   * {@link HighThroughputConfig#maxReceiveRows()}, or the worst case; 0 without high-throughput
   * operations. {@code config} has a placement.
   */
  public static int rows(BufferConfig config) {
    if (config.highThroughput().isEmpty()) {
      return 0;
    }
    HighThroughputConfig part = config.highThroughput().get();
    boolean given = part.maxReceiveRows().isPresent();
    long needed = given ? part.maxReceiveRows().getAsLong() : worstCase(config, part);
    if (needed > Integer.MAX_VALUE) {
      throw new InvalidArgumentException(
          ErrorCode.RECEIVE_REGION_TOO_LARGE,
          "highThroughput.maxReceiveRows",
          needed + " rows" + (given ? "" : " (worst case of maxTokens)"),
          "at most " + Integer.MAX_VALUE,
          "set maxReceiveRows to what the batches need, or lower maxTokens");
    }
    return (int) needed;
  }

  /** Whether the receive region holds all rows that ranks can send. */
  public static boolean holdsWorstCase(BufferConfig config) {
    return config.highThroughput().isPresent()
        && rows(config) >= worstCase(config, config.highThroughput().get());
  }

  /** Rows of the worst case of both layouts. */
  private static long worstCase(BufferConfig config, HighThroughputConfig part) {
    ExpertPlacement placement = Objects.requireNonNull(config.placement(), "settled placement");
    long tokens = (long) placement.ranks() * part.maxTokens();
    int local = placement.maxLocalExperts();
    long grouped = tokens * Math.min(config.topK(), local) + (part.expertAlignment() - 1L) * local;
    return Math.max(tokens, grouped);
  }
}
