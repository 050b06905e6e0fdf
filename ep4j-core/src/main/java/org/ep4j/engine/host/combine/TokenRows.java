package org.ep4j.engine.host.combine;

import org.ep4j.engine.host.kernel.RowKernels;
import org.ep4j.tensor.DType;

/**
 * The rows of the sum of one token, in order of addition. EXPERT_MAJOR rows form groups, one per
 * rank; a bias is a group of its own. Filled for each token, used by one thread.
 */
public final class TokenRows {
  /** Addresses. */
  public final long[] rows;

  /** Weight of each row. */
  private final float[] weights;

  /** Number of rows. */
  public int count;

  /** For each group, the index after its last row. */
  public final int[] groupEnd;

  /** Number of groups. */
  public int groups;

  public TokenRows(int max) {
    rows = new long[max];
    weights = new float[max];
    groupEnd = new int[max];
  }

  public void clear() {
    count = 0;
    groups = 0;
  }

  /** Adds a row of weight 1 as a group of its own. */
  public void addGroup(long row) {
    addGroup(row, 1);
  }

  /** Adds a row as a group of its own. */
  public void addGroup(long row, float weight) {
    groups++;
    add(row, weight);
  }

  /** Adds a row to the last group. */
  public void add(long row, float weight) {
    rows[count] = row;
    weights[count++] = weight;
    groupEnd[groups - 1] = count;
  }

  /** Adds the rows one by one into the row at {@code out}. */
  public void sumChain(RowKernels kernels, DType dtype, boolean weighted, long out, int elements) {
    if (weighted) {
      kernels.weightedReduce(dtype, rows, weights, count, out, elements);
    } else {
      kernels.reduceRows(dtype, rows, count, out, elements);
    }
  }

  /**
   * Sums the groups into the row at {@code out}.
   *
   * @param weighted whether rows are multiplied by their weights
   */
  public void sumGroups(
      RowKernels kernels,
      DType dtype,
      boolean weighted,
      boolean partialRounding,
      long out,
      int elements) {
    if (weighted) {
      kernels.reduceScaledGroups(
          dtype, rows, weights, groupEnd, groups, partialRounding, out, elements);
    } else {
      kernels.reduceGroups(dtype, rows, groupEnd, groups, partialRounding, out, elements);
    }
  }
}
