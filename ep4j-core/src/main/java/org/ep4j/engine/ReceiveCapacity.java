package org.ep4j.engine;

import java.util.Objects;
import org.ep4j.config.BufferConfig;
import org.ep4j.config.HighThroughputConfig;
import org.ep4j.config.Layout;
import org.ep4j.error.ErrorCode;
import org.ep4j.error.InvalidArgumentException;
import org.ep4j.routing.ExpertPlacement;

/** Number of rows of a receive region, the same for every engine. */
public final class ReceiveCapacity {
  private ReceiveCapacity() {}

  /**
   * The worst case, or {@link HighThroughputConfig#maxReceiveRows()} where that is less: no
   * dispatch fills more. 0 without high-throughput operations. {@code config} has a placement.
   */
  public static int rows(BufferConfig config) {
    if (config.highThroughput().isEmpty()) {
      return 0;
    }
    HighThroughputConfig part = config.highThroughput().get();
    long worst = worstCase(config, part);
    long needed = Math.min(part.maxReceiveRows().orElse(worst), worst);
    if (needed > Integer.MAX_VALUE) {
      throw new InvalidArgumentException(
          ErrorCode.RECEIVE_REGION_TOO_LARGE,
          "highThroughput.maxReceiveRows",
          needed + " rows" + (needed == worst ? " (worst case of maxTokens)" : ""),
          "at most " + Integer.MAX_VALUE,
          "set maxReceiveRows to what the batches need, or lower maxTokens");
    }
    long least = rowsOfOneToken(config, part);
    if (needed < least) {
      throw new InvalidArgumentException(
          ErrorCode.RECEIVE_ROWS_TOO_FEW,
          "highThroughput.maxReceiveRows",
          needed + " rows",
          "at least " + least + ", the rows of one token that chooses experts of one rank only",
          "raise it to what the batches need, or leave it out for the worst case");
    }
    return (int) needed;
  }

  /** Whether the receive region holds all rows that ranks can send. */
  public static boolean holdsWorstCase(BufferConfig config) {
    return config.highThroughput().isPresent()
        && rows(config) >= worstCase(config, config.highThroughput().get());
  }

  /** Rows of the worst case of the declared layouts. */
  private static long worstCase(BufferConfig config, HighThroughputConfig part) {
    ExpertPlacement placement = Objects.requireNonNull(config.placement(), "settled placement");
    long tokens = (long) placement.ranks() * part.maxTokens();
    return part.layouts().contains(Layout.EXPERT_MAJOR)
        ? tokens * rowsOfOneToken(config, part)
            + (part.expertAlignment() - 1L) * placement.maxLocalExperts()
        : tokens;
  }

  /** Rows of a token that goes to as many experts of one rank as possible; without padding. */
  private static long rowsOfOneToken(BufferConfig config, HighThroughputConfig part) {
    ExpertPlacement placement = Objects.requireNonNull(config.placement(), "settled placement");
    return part.layouts().contains(Layout.EXPERT_MAJOR)
        ? Math.max(1, Math.min(config.topK(), placement.maxLocalExperts()))
        : 1;
  }
}
