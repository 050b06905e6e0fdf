package org.ep4j.engine.host.streaming;

/**
 * The rows of the sum of one token, in order of addition. EXPERT_MAJOR rows form groups, one per
 * rank; a bias is a group of its own. Filled for each token, used by one thread.
 */
public final class TokenRows {
  /** Addresses. */
  public final long[] rows;

  /** Number of rows. */
  public int count;

  /** For each group, the index after its last row. */
  public final int[] groupEnd;

  /** Number of groups. */
  public int groups;

  public TokenRows(int max) {
    rows = new long[max];
    groupEnd = new int[max];
  }

  public void clear() {
    count = 0;
    groups = 0;
  }

  /** Adds a row as a group of its own. */
  public void addGroup(long row) {
    groups++;
    add(row);
  }

  /** Adds a row to the last group. */
  public void add(long row) {
    rows[count++] = row;
    groupEnd[groups - 1] = count;
  }
}
