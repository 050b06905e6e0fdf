package org.ep4j.engine.host.context;

import java.util.concurrent.atomic.AtomicInteger;
import org.ep4j.DispatchHandle;
import org.ep4j.ErrorCode;
import org.ep4j.IllegalUseException;
import org.ep4j.Layout;
import org.ep4j.ScaleLayout;
import org.ep4j.engine.Nodes;
import org.ep4j.engine.Rails;
import org.ep4j.memory.NativeMemory;

/**
 * The routes of a dispatch: for each token of this rank the slots of its rows, and what this rank
 * received. Arrays grow to the largest size needed and are reused with the handle.
 *
 * <p>Life cycle: taken from the pool (open); used by operations, several of which may be queued;
 * closed by the caller; returned to the pool once it is closed and no operation uses it.
 */
public final class HostHandle implements DispatchHandle {
  private static final int CLOSED = 1;
  private static final int USE = 2;

  private final HandlePool pool;

  /** {@link #CLOSED} bit and, above it, the number of operations that use the handle. */
  private final AtomicInteger state = new AtomicInteger();

  public Layout layout = Layout.FLAT;
  public int tokens;
  public int topK;

  /** Epoch of the dispatch: identifies the handle across ranks. */
  public long epoch;

  /** Number of resets before the dispatch. */
  public int generation;

  public boolean staticSizing;
  public boolean zeroPadding;
  public ScaleLayout scaleLayout = ScaleLayout.ROW_MAJOR;
  public boolean weighted;
  public int alignment;

  /** The routes of token t are start[t] to start[t + 1], in order of (rank, local expert). */
  public int[] start = new int[1];

  /** See {@link RowTarget}. */
  public long[] routes = new long[0];

  /**
   * EXPERT_MAJOR with weights: the weight of each route, which a combine may apply. Unlike the
   * weights that a rank received, these last as long as the handle.
   */
  public float[] routeWeights = new float[0];

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

  /** Rows that this rank's region takes: slots from here on were not written. */
  public int limit;

  /** Rows routed to this rank, EXPERT_MAJOR with padding; may exceed {@link #limit}. */
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

  HostHandle(HandlePool pool, int localExperts, int ranks) {
    this.pool = pool;
    received = new int[localExperts];
    aligned = new int[localExperts];
    expertOffsets = new long[localExperts + 1];
    rankOffsets = new long[ranks + 1];
  }

  /** Prepares the handle for a new dispatch. */
  void open() {
    state.set(0);
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
      insideRoutes[i] =
          route >= 0 && nodes.together(rank, RowTarget.rank(route)) ? route : RowTarget.NOWHERE;
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

  /** Keeps the handle from reuse while an operation needs it. */
  public void acquire() {
    int now;
    do {
      now = state.get();
      if ((now & CLOSED) != 0) {
        throw new IllegalUseException(
            ErrorCode.HANDLE_CLOSED,
            "the dispatch handle has been closed: close it after its last use");
      }
    } while (!state.compareAndSet(now, now + USE));
  }

  public void release() {
    if (state.addAndGet(-USE) == CLOSED) {
      pool.give(this);
    }
  }

  public boolean isOf(HandlePool other) {
    return pool == other;
  }

  @Override
  public Layout layout() {
    return layout;
  }

  @Override
  public int tokens() {
    return tokens;
  }

  @Override
  public int topK() {
    return topK;
  }

  @Override
  public long rows() {
    return Math.min(neededRows, limit);
  }

  @Override
  public void close() {
    int now;
    do {
      now = state.get();
      if ((now & CLOSED) != 0) {
        return;
      }
    } while (!state.compareAndSet(now, now | CLOSED));
    if (now == 0) {
      pool.give(this);
    }
  }

  @Override
  public String toString() {
    return "handle of dispatch "
        + epoch
        + " ("
        + layout
        + ", "
        + tokens
        + " tokens, "
        + rows()
        + " rows"
        + ((state.get() & CLOSED) != 0 ? ", closed)" : ")");
  }
}
