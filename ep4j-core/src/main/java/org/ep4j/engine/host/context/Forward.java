package org.ep4j.engine.host.context;

import java.util.Arrays;
import org.ep4j.engine.host.context.HostHandle.RowTarget;
import org.ep4j.memory.NativeMemory;

/**
 * Tokens of a rank of another node that this rank receives for its node in a dispatch, in order of
 * arrival: their numbers and their routes inside the node. A combine returns rows along these
 * routes.
 */
public final class Forward {
  public int tokens;

  /** Number of each token at its source. */
  public int[] sourceTokens = new int[0];

  /** The routes of token i are start[i] to start[i + 1], in order of (rank, local expert). */
  public int[] start = new int[1];

  /** See {@link RowTarget}; all lead to ranks of this node. */
  public long[] routes = new long[0];

  /**
   * EXPERT_MAJOR with weights: the weight of each route. A cached dispatch brings the same tokens
   * in the same order without weights, and leaves these as they are.
   */
  public float[] routeWeights = new float[0];

  public void clear() {
    tokens = 0;
  }

  /** Makes space for more tokens and routes; keeps the content. */
  public void ensure(int moreTokens, int moreRoutes) {
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

  /**
   * Copies the weights of the routes of token {@code token}. The routes name their choices.
   *
   * @param weights address of FP32 [topK]
   */
  public void keepWeights(int token, long weights) {
    if (routeWeights.length < routes.length) {
      routeWeights = Arrays.copyOf(routeWeights, routes.length);
    }
    for (int i = start[token]; i < start[token + 1]; i++) {
      long choice = RowTarget.choice(routes[i]);
      routeWeights[i] = NativeMemory.getFloat(weights + choice * Float.BYTES);
    }
  }
}
