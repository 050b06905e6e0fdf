package org.ep4j.engine.host.context;

import org.ep4j.DispatchHandle;
import org.ep4j.engine.throughput.HandlePool;
import org.ep4j.engine.throughput.HighThroughputChecks;
import org.ep4j.engine.throughput.PooledHandle;
import org.ep4j.engine.world.Nodes;
import org.ep4j.engine.world.Rails;
import org.ep4j.memory.NativeMemory;
import org.ep4j.tensor.Tensor;
import org.jspecify.annotations.Nullable;

/**
 * The routes of a dispatch: for each token of this rank the slots of its rows, and what this rank
 * received. Arrays grow to the largest size needed and are reused with the handle.
 */
public final class HostHandle extends PooledHandle {
  /**
   * A route of a row, packed into a long: its destination rank, its slot there, and the choice of
   * its token. Negative only in {@link #intranodeRoutes}.
   */
  public static final class RowTarget {
    public static final long NOWHERE = -1;

    private static final int CHOICE_SHIFT = 32;
    private static final int RANK_SHIFT = 40;

    private RowTarget() {}

    /**
     * Packs a route.
     *
     * @param rank destination, below 2^23
     * @param choice index among the token's choices, below 256; 0 where unused
     * @param slot row of the destination's receive region or, until that is known, the number of
     *     rows before it from the same source in the same group
     */
    public static long pack(int rank, int choice, int slot) {
      return (long) rank << RANK_SHIFT | (long) choice << CHOICE_SHIFT | slot;
    }

    public static int rank(long route) {
      return (int) (route >>> RANK_SHIFT);
    }

    public static int choice(long route) {
      return (int) (route >>> CHOICE_SHIFT) & 0xff;
    }

    public static int slot(long route) {
      return (int) route;
    }
  }

  /** Closed handles that a buffer keeps. */
  private static final int KEPT = 64;

  /** Epoch of the dispatch: identifies the handle across ranks. */
  public long epoch;

  /**
   * The routes of token t are start[t] to start[t + 1], in order of (rank, local expert); once
   * slots are known, without those of rows for which no slot is left.
   */
  public int[] start = new int[1];

  /** See {@link RowTarget}. */
  public long[] routes = new long[0];

  /**
   * EXPERT_MAJOR with weights: the weight of each route, which a combine may apply. Unlike the
   * weights that a rank received, these last as long as the handle.
   */
  public float[] routeWeights = new float[0];

  /**
   * EXPERT_MAJOR: the indices of the routes of each token in ascending order of experts, at the
   * places of these routes; null if the routes themselves have that order.
   */
  public int @Nullable [] order;

  /** Memory of {@link #order}. */
  private int[] sorted = new int[0];

  /** Experts that order the sums, [tokens, topK]. */
  private long[] orderedBy = new long[0];

  /** Expert of each route of a token while they are sorted. */
  private long[] keys = new long[0];

  /**
   * The same routes with {@link RowTarget#NOWHERE} for routes to other nodes; the same array if
   * there is one node.
   */
  public long[] intranodeRoutes = routes;

  /** Memory of {@link #intranodeRoutes} if there are several nodes. */
  private long[] insideRoutes = new long[0];

  /** Forwarded tokens of other nodes, by partner ({@link Rails}). */
  private Forward[] forwards = new Forward[0];

  /** Number of routes that lead to a rank. */
  public int rowsSent;

  /** Rows routed to this rank, EXPERT_MAJOR with padding; may exceed {@code limit}. */
  public long neededRows;

  /** Rows routed to this rank, without padding. */
  public long receivedRows;

  /** Tokens per local expert. */
  public final int[] received;

  /** Tokens per local expert, rounded up to the alignment. */
  public final int[] aligned;

  /** EXPERT_MAJOR: first row of each group, and the end of the last. */
  public final long[] expertOffsets;

  /** FLAT: first row from each source rank, and the end. */
  public final long[] rankOffsets;

  private HostHandle(HandlePool<HostHandle> pool, int localExperts, int ranks) {
    super(pool);
    received = new int[localExperts];
    aligned = new int[localExperts];
    expertOffsets = new long[localExperts + 1];
    rankOffsets = new long[ranks + 1];
  }

  /** The handles of one buffer. */
  public static HandlePool<HostHandle> pool(int localExperts, int ranks) {
    return new HandlePool<>(KEPT, pool -> new HostHandle(pool, localExperts, ranks));
  }

  /** The handle that a caller passes, held until its release. */
  public static HostHandle use(
      HandlePool<HostHandle> pool, DispatchHandle given, HostContext context) {
    HighThroughputChecks.highThroughput(context.config);
    context.requireUsable();
    HostHandle handle = pool.require(given, context.generation);
    handle.acquire();
    return handle;
  }

  /** Makes space for the routes of {@code tokens} tokens with {@code topK} choices each. */
  public void ensureRoutes(int tokens, int topK) {
    if (start.length <= tokens) {
      start = new int[tokens + 1];
    }
    if (routes.length < (long) tokens * topK) {
      routes = new long[Math.multiplyExact(tokens, topK)];
    }
    intranodeRoutes = routes;
  }

  /**
   * Copies the weights of the routes. The routes name their choices.
   *
   * @param weights address of FP32 [tokens, topK]
   */
  public void keepWeights(long weights) {
    if (routeWeights.length < routes.length) {
      routeWeights = new float[routes.length];
    }
    for (int t = 0; t < tokens; t++) {
      long ofToken = weights + (long) t * topK * Float.BYTES;
      for (int i = start[t]; i < start[t + 1]; i++) {
        long choice = RowTarget.choice(routes[i]);
        routeWeights[i] = NativeMemory.getFloat(ofToken + choice * Float.BYTES);
      }
    }
  }

  /**
   * Reads the experts that order the sums of each token, before rows are sent: rows may overwrite
   * them.
   *
   * @param given INT64 or INT32 [tokens, topK] in host memory, distinct in each row
   */
  public void keepExperts(Tensor given) {
    if (orderedBy.length < routes.length) {
      orderedBy = new long[routes.length];
    }
    for (int at = 0; at < tokens * topK; at++) {
      orderedBy[at] = CallerTensors.id(given, at);
    }
  }

  /** Sorts the routes of each token by the kept experts. The routes name their choices. */
  public void sortByExperts() {
    if (sorted.length < routes.length) {
      sorted = new int[routes.length];
    }
    if (keys.length < topK) {
      keys = new long[topK];
    }
    for (int t = 0; t < tokens; t++) {
      int first = start[t];
      for (int i = first; i < start[t + 1]; i++) {
        long key = orderedBy[t * topK + RowTarget.choice(routes[i])];
        int at = i;
        for (; at > first && keys[at - 1 - first] > key; at--) {
          keys[at - first] = keys[at - 1 - first];
          sorted[at] = sorted[at - 1];
        }
        keys[at - first] = key;
        sorted[at] = i;
      }
    }
    order = sorted;
  }

  /** Separates the routes to other nodes. */
  public void sortOut(Nodes nodes, int rank) {
    if (nodes.count() == 1) {
      return;
    }
    if (insideRoutes.length < routes.length) {
      insideRoutes = new long[routes.length];
    }
    int end = start[tokens];
    for (int i = 0; i < end; i++) {
      long route = routes[i];
      insideRoutes[i] = nodes.together(rank, RowTarget.rank(route)) ? route : RowTarget.NOWHERE;
    }
    intranodeRoutes = insideRoutes;
  }

  /** Makes space for the forwarded tokens of {@code partners} partners. */
  public Forward[] forwards(int partners) {
    if (forwards.length < partners) {
      Forward[] all = new Forward[partners];
      for (int i = 0; i < partners; i++) {
        all[i] = i < forwards.length ? forwards[i] : new Forward();
      }
      forwards = all;
    }
    return forwards;
  }

  /** They arrive with the rows. */
  @Override
  public void awaitCounts() {
    // Callers get the handle after the rows have arrived.
  }

  @Override
  public long neededRows() {
    return neededRows;
  }

  @Override
  public long receivedRows() {
    return receivedRows;
  }
}
