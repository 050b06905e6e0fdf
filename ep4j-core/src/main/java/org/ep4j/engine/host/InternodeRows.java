package org.ep4j.engine.host;

/**
 * Where the rows from other nodes lie in a combine, by way: with partial rounding a node's partial
 * sum, told for the first of the token's ways to it; without it the row of each way.
 */
final class InternodeRows {
  long[] row = new long[0];
  long[] weights = new long[0];

  void ensure(int routes) {
    if (row.length < routes) {
      row = new long[routes];
      weights = new long[routes];
    }
  }
}
