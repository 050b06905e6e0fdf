package org.ep4j.engine.host;

/**
 * Where the rows from other nodes lie in a combine, by way: with partial rounding a node's partial
 * sum, told for the first of the token's ways to it; without it the row of each way.
 */
final class FarRows {
  long[] row = new long[0];
  long[] weights = new long[0];

  void ensure(int ways) {
    if (row.length < ways) {
      row = new long[ways];
      weights = new long[ways];
    }
  }
}
