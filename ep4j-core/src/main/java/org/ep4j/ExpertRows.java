package org.ep4j;

import java.util.ArrayList;
import java.util.List;
import java.util.function.IntToLongFunction;
import org.ep4j.tensor.Tensor;

/**
 * The rows that a local expert has received, without padding and free space.
 *
 * @param local number of the expert on this rank
 * @param first first row, counted over all groups
 * @param end behind the last row
 */
public record ExpertRows(int local, long first, long end) {
  /** Number of rows, at least 1. */
  public long count() {
    return end - first;
  }

  /**
   * The expert's part of a tensor that has a row for each received row; shares the memory.
   *
   * @param rows [N, ...] of a {@link GroupedDispatch}, or [L, P, H] of a {@link
   *     LowLatencyDispatch}: what was received, or results in the same order
   * @return [count, ...]
   */
  public Tensor of(Tensor rows) {
    Tensor all =
        rows.dimensions() == 3 ? rows.reshape(rows.size(0) * rows.size(1), rows.size(2)) : rows;
    return all.rows(first, end);
  }

  /** Of the experts that have rows. */
  static List<ExpertRows> list(Tensor counts, IntToLongFunction starts) {
    List<ExpertRows> experts = new ArrayList<>();
    for (int local = 0; local < counts.size(0); local++) {
      int count = counts.getInt(local);
      if (count > 0) {
        long first = starts.applyAsLong(local);
        experts.add(new ExpertRows(local, first, first + count));
      }
    }
    return experts;
  }
}
