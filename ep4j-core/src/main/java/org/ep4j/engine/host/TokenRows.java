package org.ep4j.engine.host;

/**
 * The rows that make up the sum of one token, in order of addition. EXPERT_MAJOR they come in
 * groups, one a rank; a bias is a group of its own. Filled anew for each token, used by one thread.
 */
final class TokenRows {
  /** Addresses. */
  final long[] rows;

  /** Number of rows. */
  int count;

  /** For each group the index behind its last row. */
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
