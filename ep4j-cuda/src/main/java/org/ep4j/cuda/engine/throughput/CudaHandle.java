package org.ep4j.cuda.engine.throughput;

import java.lang.foreign.ValueLayout;
import java.util.concurrent.atomic.AtomicInteger;
import org.ep4j.DispatchHandle;
import org.ep4j.ErrorCode;
import org.ep4j.IllegalUseException;
import org.ep4j.Layout;
import org.ep4j.ScaleLayout;
import org.ep4j.cuda.driver.CudaDevice;
import org.ep4j.cuda.driver.DeviceMemory;
import org.ep4j.cuda.driver.PinnedMemory;
import org.ep4j.cuda.driver.ResourceStack;
import org.jspecify.annotations.Nullable;

/**
 * The routes of a dispatch in device memory, and its counts, which the dispatch kernel writes into
 * page-locked memory. Kernels of a buffer run in order, so a new dispatch may reuse a handle while
 * an older operation with it is still queued.
 */
final class CudaHandle implements DispatchHandle {
  private static final int TICKET = 0;
  private static final int NEEDED = 8;
  private static final int RECEIVED = 16;
  private static final int OVERFLOW_RANK = 24;
  private static final int OVERFLOW_NEEDED = 32;
  private static final int OVERFLOW_LIMIT = 40;

  private final ResourceStack owned = new ResourceStack();
  private final HandlePool pool;
  private final HandleLayout at;
  private final DeviceMemory device;
  private final PinnedMemory host;
  private @Nullable DeviceMemory slots;
  private final AtomicInteger closed = new AtomicInteger();

  /** The handle that was returned before this one; only the pool uses it. */
  @Nullable CudaHandle before;

  Layout layout = Layout.FLAT;
  int tokens;
  int topK;
  boolean weighted;
  boolean staticSizing;
  boolean zeroPadding;
  ScaleLayout scaleLayout = ScaleLayout.ROW_MAJOR;
  int alignment;
  int generation;

  /** Receive capacity of this rank in rows. */
  long limit;

  /** Value that the kernel writes when the counts are complete. */
  long ticket;

  /** Number of the dispatch among the calls since the last reset, equal on all ranks. */
  long call;

  /** Whether the dispatch is part of a graph: its counts are then those of the last replay. */
  boolean captured;

  CudaHandle(HandlePool pool, CudaDevice memory, HandleLayout at) {
    this.pool = pool;
    this.at = at;
    boolean complete = false;
    try {
      device = owned.own(DeviceMemory.allocate(memory, at.deviceBytes));
      host = owned.own(PinnedMemory.allocate(memory, at.hostBytes));
      complete = true;
    } finally {
      if (!complete) {
        owned.close();
      }
    }
  }

  /** Resets the handle for a new dispatch. */
  void open() {
    closed.set(0);
  }

  boolean isOf(HandlePool other) {
    return pool == other;
  }

  void requireOpen() {
    if (closed.get() != 0) {
      throw new IllegalUseException(
          ErrorCode.HANDLE_CLOSED,
          "the dispatch handle has been closed: close it after its last use");
    }
  }

  /** Device address of an array of {@link HandleLayout}. */
  long onDevice(long offset) {
    return device.address() + offset;
  }

  /** Device address of a page-locked array of {@link HandleLayout}. */
  long hostOnDevice(long offset) {
    return host.deviceAddress() + offset;
  }

  PinnedMemory host() {
    return host;
  }

  HandleLayout at() {
    return at;
  }

  /** Whether a dispatch with these rows needs no more memory. */
  boolean isComplete(Layout rows) {
    return rows == Layout.FLAT || slots != null;
  }

  /** Target rows of an EXPERT_MAJOR dispatch. */
  long slotRows() {
    return slots() + at.slotRows;
  }

  /**
   * Weights of these rows, which a combine may apply. The weights that were received last only
   * until the next dispatch.
   */
  long slotWeights() {
    return slots() + at.slotWeights;
  }

  private long slots() {
    DeviceMemory memory = slots;
    if (memory == null) {
      memory = owned.own(DeviceMemory.allocate(device.device(), at.slotsBytes));
      slots = memory;
      pool.grew(at.slotsBytes);
    }
    return memory.address();
  }

  /** Waits until the counts are written. */
  void awaitCounts() {
    if (!captured) {
      pool.completion().awaitAt(host.segment(), at.totals + TICKET, ticket, "dispatch");
    }
  }

  private long total(int word) {
    return host.segment().get(ValueLayout.JAVA_LONG, at.totals + word);
  }

  long neededRows() {
    return total(NEEDED);
  }

  long receivedRows() {
    return total(RECEIVED);
  }

  /** The first rank whose region is too small, or -1. */
  int overflowRank() {
    int rank = (int) total(OVERFLOW_RANK);
    return rank == pool.ranks() ? -1 : rank;
  }

  long overflowNeeded() {
    return total(OVERFLOW_NEEDED);
  }

  long overflowLimit() {
    return total(OVERFLOW_LIMIT);
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
    awaitCounts();
    return Math.min(neededRows(), limit);
  }

  @Override
  public void close() {
    if (closed.compareAndSet(0, 1)) {
      pool.give(this);
    }
  }

  /** Frees the memory when the buffer closes. */
  void free() {
    closed.set(1);
    owned.close();
  }

  @Override
  public String toString() {
    return "handle of a dispatch (" + layout + ", " + tokens + " tokens)";
  }
}
