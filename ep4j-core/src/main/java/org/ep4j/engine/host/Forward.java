package org.ep4j.engine.host;

import java.util.Arrays;

/**
 * Tokens of a rank of another node that this rank takes for its node in a dispatch, in the order in
 * which they come: which they are, and their ways inside the node. A combine sends back along them.
 */
final class Forward {
  int tokens;

  /** Number of each token at its source. */
  int[] sourceTokens = new int[0];

  /** Token i has the ways from start[i] to start[i + 1], in order of (rank, local expert). */
  int[] start = new int[1];

  /** See {@link RowTarget}; all lead to ranks of this node. */
  long[] routes = new long[0];

  void clear() {
    tokens = 0;
  }

  /** Room for more tokens and ways; what is there stays. */
  void ensure(int moreTokens, int moreRoutes) {
    int end = start[tokens];
    if (sourceTokens.length < tokens + moreTokens) {
      int length = Math.max(tokens + moreTokens, 2 * tokens);
      sourceTokens = Arrays.copyOf(sourceTokens, length);
      start = Arrays.copyOf(start, length + 1);
    }
    if (routes.length < end + moreRoutes) {
      routes = Arrays.copyOf(routes, Math.max(end + moreRoutes, 2 * end));
    }
  }
}
