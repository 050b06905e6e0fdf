package org.ep4j.engine.throughput;

import java.util.concurrent.atomic.AtomicInteger;
import org.ep4j.DispatchHandle;
import org.ep4j.DispatchOptions;
import org.ep4j.Tokens;
import org.ep4j.config.Layout;
import org.ep4j.engine.CallExperts;
import org.ep4j.engine.Operation;
import org.ep4j.engine.OperationLayout;
import org.ep4j.error.ErrorCode;
import org.ep4j.error.IllegalUseException;
import org.ep4j.routing.Routing;
import org.ep4j.tensor.ScaleLayout;
import org.jspecify.annotations.Nullable;

/**
 * The routes of a dispatch. The engine adds where they are.
 *
 * <p>Life cycle: taken from the pool (open); used by operations, several of which may be queued;
 * closed by any thread; returned to the pool once it is closed and no operation uses it.
 */
public abstract class PooledHandle implements DispatchHandle {
  private static final int CLOSED = 1;
  private static final int USE = 2;

  private final HandlePool<?> pool;

  /** {@link #CLOSED} bit and, above it, the number of operations that use the handle. */
  private final AtomicInteger state = new AtomicInteger();

  /** The handle that was returned before this one; the pool's. */
  @Nullable PooledHandle before;

  /** Whether a caller, or a graph, has the handle and closes it. */
  private boolean handedOut;

  /** Order of the rows. */
  public Layout layout = Layout.FLAT;

  /** Tokens of this rank. */
  public int tokens;

  /** Choices of a token. */
  public int topK;

  /** Whether the dispatch sent weights. */
  public boolean weighted;

  /** Whether the caller fixed the number of rows. */
  public boolean staticSizing;

  /** Whether padding rows are zeros. */
  public boolean zeroPadding;

  /** Order of received scales. */
  public ScaleLayout scaleLayout = ScaleLayout.ROW_MAJOR;

  /** Group sizes are rounded up to multiples of it. */
  public int alignment;

  /** Experts of the dispatch, see {@link CallExperts}, and those of this rank. */
  public int experts;

  public int localExperts;

  /** Rows that this rank takes: later rows were not written. */
  public long limit;

  /** Number of resets before the dispatch. */
  public int generation;

  /** A closed handle of a pool. */
  protected PooledHandle(HandlePool<?> pool) {
    this.pool = pool;
    state.set(CLOSED);
  }

  /** Waits until the counts can be read. */
  public abstract void awaitCounts();

  /** Rows routed to this rank, with padding; may exceed {@link #limit}. Counts have arrived. */
  public abstract long neededRows();

  /** Rows routed to this rank, without padding. Counts have arrived. */
  public abstract long receivedRows();

  /** Prepares the handle for a new dispatch. */
  void open() {
    handedOut = false;
    state.set(0);
  }

  final boolean isOf(HandlePool<?> other) {
    return pool == other;
  }

  /** A caller or a graph gets the handle and closes it: the pool no longer does. */
  public final void handOut() {
    handedOut = true;
  }

  final boolean isHandedOut() {
    return handedOut;
  }

  /**
   * Describes a new dispatch.
   *
   * @param ofCalls the experts of calls of this buffer
   * @param capacity rows of this rank's region
   */
  public final void describe(
      Layout order, Routing routing, DispatchOptions options, CallExperts ofCalls, int capacity) {
    experts = ofCalls.number(options.experts());
    localExperts = ofCalls.local(experts);
    layout = order;
    tokens = routing.tokens();
    topK = routing.topK();
    weighted = routing.topkWeights() != null;
    staticSizing = options.sizing().isStatic();
    zeroPadding = options.zeroPadding();
    scaleLayout = options.scaleLayout();
    alignment = options.expertAlignment();
    limit = staticSizing ? options.sizing().maxRows() : capacity;
  }

  /** Describes the dispatch of {@code payload} to the peers: what must be equal on all ranks. */
  public final Operation describe(Operation operation, Tokens payload) {
    return describe(operation.begin(OperationLayout.DISPATCH), payload, this)
        .set(OperationLayout.TOP_K, topK)
        .set(OperationLayout.EXPERTS, experts)
        .set(OperationLayout.WEIGHTS, weighted);
  }

  /**
   * Describes a dispatch along these routes to the peers.
   *
   * @param number of the dispatch of this handle, the same on all ranks
   */
  public final Operation describeCached(Operation operation, Tokens payload, long number) {
    return describe(operation.begin(OperationLayout.CACHED_DISPATCH), payload, this)
        .set(OperationLayout.HANDLE, number);
  }

  private static Operation describe(Operation operation, Tokens payload, PooledHandle handle) {
    return operation
        .payload(payload)
        .set(OperationLayout.LAYOUT, handle.layout.ordinal())
        .set(OperationLayout.STATIC_SIZING, handle.staticSizing)
        .set(OperationLayout.EXPERT_ALIGNMENT, handle.alignment);
  }

  /** Requires that the handle has not been closed. */
  final void requireOpen() {
    requireOpen(state.get());
  }

  private static void requireOpen(int state) {
    if ((state & CLOSED) != 0) {
      throw new IllegalUseException(
          ErrorCode.HANDLE_CLOSED,
          "the dispatch handle has been closed: close it after its last use");
    }
  }

  /** Keeps the open handle from reuse until {@link #release}. */
  public final void acquire() {
    int now;
    do {
      now = state.get();
      requireOpen(now);
    } while (!state.compareAndSet(now, now + USE));
  }

  /** Ends the use that {@link #acquire} began. */
  public final void release() {
    if (state.addAndGet(-USE) == CLOSED) {
      pool.give(this);
    }
  }

  @Override
  public final Layout layout() {
    return layout;
  }

  @Override
  public final int tokens() {
    return tokens;
  }

  @Override
  public final int topK() {
    return topK;
  }

  @Override
  public final long rows() {
    awaitCounts();
    return Math.min(neededRows(), limit);
  }

  @Override
  public final void close() {
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
    return "handle of a dispatch ("
        + layout
        + ", "
        + tokens
        + " tokens"
        + ((state.get() & CLOSED) != 0 ? ", closed)" : ")");
  }
}
