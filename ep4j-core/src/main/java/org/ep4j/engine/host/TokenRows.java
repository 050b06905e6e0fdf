package org.ep4j.engine.host;

/**
 * The rows of the sum of one token, in order of addition. EXPERT_MAJOR rows form groups, one per
 * rank; a bias is a group of its own. Filled for each token, used by one thread.
 */
final class TokenRows {
  /** Addresses. */
  final long[] rows;

  /** Number of rows. */
  int count;

  /** For each group, the index after its last row. */
  final int[] groupEnd;

  /** Number of groups. */
  int groups;

  TokenRows(int max) {
    rows = new long[max];
    groupEnd = new int[max];
  }

  void clear() {
    count = 0;
    groups = 0;
  }

  /** Adds a row as a group of its own. */
  void addGroup(long row) {
    groups++;
    add(row);
  }

  /** Adds a row to the last group. */
  void add(long row) {
    rows[count++] = row;
    groupEnd[groups - 1] = count;
  }
}
