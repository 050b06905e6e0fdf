package org.ep4j.engine.host.context;

/**
 * Addresses of the rows from other nodes in a combine, by route: with partial rounding a node's
 * partial sum, stored for the first of the token's routes to the node; without it the row of each
 * route.
 */
public final class InternodeRows {
  public long[] row = new long[0];
  public long[] weights = new long[0];

  public void ensure(int routes) {
    if (row.length < routes) {
      row = new long[routes];
      weights = new long[routes];
    }
  }
}
