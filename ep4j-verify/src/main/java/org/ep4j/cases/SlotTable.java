package org.ep4j.cases;

import java.util.Arrays;
import org.ep4j.error.ErrorCode;
import org.ep4j.io.SafetensorsException;
import org.ep4j.tensor.DType;
import org.ep4j.tensor.Tensor;

/**
 * The token in each row of a low-latency dispatch, from {@code layout_range} and {@code src_info}:
 * two implementations may order sources and tokens differently.
 */
final class SlotTable {
  private final int ranks;
  private final int rowsPerExpert;
  private final int[] first;
  private final int[] count;
  private final int[] token;

  /**
   * Reads and checks the table.
   *
   * @param name source of the tensors, for messages
   * @param layoutRange INT64 [L, R]
   * @param srcInfo INT32 [L, R*M]
   */
  SlotTable(String name, Tensor layoutRange, Tensor srcInfo) {
    if (layoutRange.dimensions() != 2
        || layoutRange.dtype() != DType.INT64
        || layoutRange.size(1) > Integer.MAX_VALUE) {
      throw new SafetensorsException(
          ErrorCode.CASE_INCONSISTENT,
          name,
          "layout_range",
          layoutRange + " is not INT64 [local experts, ranks]");
    }
    if (srcInfo.dimensions() != 2
        || srcInfo.dtype() != DType.INT32
        || srcInfo.size(0) != layoutRange.size(0)
        || srcInfo.size(1) > Integer.MAX_VALUE) {
      throw new SafetensorsException(
          ErrorCode.CASE_INCONSISTENT,
          name,
          "src_info",
          srcInfo + " is not INT32 [" + layoutRange.size(0) + ", ranks * max_tokens]");
    }
    ranks = Math.toIntExact(layoutRange.size(1));
    rowsPerExpert = Math.toIntExact(srcInfo.size(1));
    first = new int[Math.toIntExact(layoutRange.elements())];
    count = new int[first.length];
    token = new int[Math.toIntExact(srcInfo.elements())];
    Arrays.fill(token, -1);
    for (int i = 0; i < first.length; i++) {
      long range = layoutRange.getLong(i);
      long rows = range & 0xFFFF_FFFFL;
      long begin = range >>> 32;
      if (rows > 0 && begin + rows > rowsPerExpert) {
        throw new SafetensorsException(
            ErrorCode.CASE_INCONSISTENT,
            name,
            "layout_range",
            "element %d names rows %d to %d of %d"
                .formatted(i, begin, begin + rows, rowsPerExpert));
      }
      count[i] = (int) rows;
      first[i] = rows == 0 ? 0 : (int) begin;
      for (int n = 0; n < count[i]; n++) {
        int slot = i / ranks * rowsPerExpert + first[i] + n;
        token[slot] = srcInfo.getInt(slot);
      }
    }
  }

  /** For messages. */
  @Override
  public String toString() {
    return "slots of %d experts, %d ranks and %d rows for each expert"
        .formatted(localExperts(), ranks, rowsPerExpert);
  }

  int localExperts() {
    return ranks == 0 ? 0 : first.length / ranks;
  }

  int ranks() {
    return ranks;
  }

  /** Rows of a local expert, used or not. */
  int rowsPerExpert() {
    return rowsPerExpert;
  }

  /** Number of rows from {@code source} for {@code expert}. */
  int count(int expert, int source) {
    return count[expert * ranks + source];
  }

  /** Slot (local expert * rows per expert + row) of the nth row from {@code source}. */
  int slot(int expert, int source, int n) {
    return expert * rowsPerExpert + first[expert * ranks + source] + n;
  }

  /** Token in a slot, -1 if the slot is unused. */
  int token(int slot) {
    return token[slot];
  }

  /** Slot of a token from {@code source} at {@code expert}, -1 if there is none. */
  int find(int expert, int source, int wanted) {
    for (int n = 0; n < count(expert, source); n++) {
      int slot = slot(expert, source, n);
      if (token[slot] == wanted) {
        return slot;
      }
    }
    return -1;
  }
}
