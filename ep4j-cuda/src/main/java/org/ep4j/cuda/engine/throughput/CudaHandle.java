package org.ep4j.cuda.engine.throughput;

import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import org.ep4j.cuda.driver.CudaDevice;
import org.ep4j.cuda.driver.DeviceMemory;
import org.ep4j.cuda.driver.PinnedMemory;
import org.ep4j.cuda.driver.ResourceStack;
import org.ep4j.cuda.engine.context.OperationEnd;
import org.ep4j.engine.SegmentMemory;
import org.ep4j.engine.throughput.HandlePool;
import org.ep4j.engine.throughput.PooledHandle;
import org.ep4j.error.ReceiveOverflowException;
import org.jspecify.annotations.Nullable;

/**
 * The routes of a dispatch in device memory, and its counts, which the dispatch kernel writes into
 * page-locked memory. Kernels of a buffer run in order, so a new dispatch may reuse a handle while
 * an older operation with it is still queued.
 */
final class CudaHandle extends PooledHandle implements OperationEnd.Outcome {
  private static final int TICKET = 0;
  private static final int NEEDED = 8;
  private static final int RECEIVED = 16;
  private static final int OVERFLOW_RANK = 24;
  private static final int OVERFLOW_NEEDED = 32;
  private static final int OVERFLOW_LIMIT = 40;

  private final ResourceStack owned = new ResourceStack();
  private final CudaHandles handles;
  private final HandleLayout at;
  private final DeviceMemory device;
  private final PinnedMemory host;
  private @Nullable DeviceMemory slots;
  private final SegmentMemory counts;

  /**
   * The totals of the last dispatch. After the buffer has closed, a copy of them: any thread may
   * wait for an event at any time.
   */
  private volatile MemorySegment totals;

  /** Value that the kernel writes when the counts are complete. */
  long ticket;

  /** Number of the dispatch among the calls since the last reset, equal on all ranks. */
  long call;

  /** Whether the dispatch is part of a graph: its counts are then those of the last replay. */
  boolean captured;

  CudaHandle(HandlePool<CudaHandle> pool, CudaHandles handles, CudaDevice memory, HandleLayout at) {
    super(pool);
    this.handles = handles;
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
    counts = new SegmentMemory(host.segment());
    totals = host.segment().asSlice(at.totals, HandleLayout.TOTALS);
  }

  /** Device address of an array of {@link HandleLayout}. */
  long onDevice(long offset) {
    return device.address() + offset;
  }

  /** Device address of a page-locked array of {@link HandleLayout}. */
  long hostOnDevice(long offset) {
    return host.deviceAddress() + offset;
  }

  /** The page-locked arrays, which the host reads. */
  SegmentMemory counts() {
    return counts;
  }

  HandleLayout at() {
    return at;
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

  /** Rows of the choices of this rank's tokens in an EXPERT_MAJOR dispatch. */
  long entries() {
    return slots() + at.entries;
  }

  /** What orders these rows in a combine by experts. */
  long keptIds() {
    return slots() + at.keptIds;
  }

  /** What multiplies them; the caller's weights may be gone by then. */
  long keptWeights() {
    return slots() + at.keptWeights;
  }

  /**
   * Where rows lie in this node of tokens that partners in other nodes sent; 0: the handle does not
   * keep that.
   */
  long internodeEntries() {
    return at.internodeEntries < 0 ? 0 : slots() + at.internodeEntries;
  }

  private long slots() {
    DeviceMemory memory = slots;
    if (memory == null) {
      memory =
          owned.own(
              handles.explained(
                  "the memory of a handle for EXPERT_MAJOR",
                  () -> DeviceMemory.allocate(device.device(), at.slotsBytes)));
      slots = memory;
      handles.grew(at.slotsBytes);
    }
    return memory.address();
  }

  /** Those of a captured dispatch are those of the last replay. */
  @Override
  public void awaitCounts() {
    if (!captured) {
      handles.completion().awaitAt(host.segment(), at.totals + TICKET, ticket, "dispatch");
    }
  }

  /**
   * Throws if the dispatch was refused because its rows lack room on some rank: all ranks know all
   * counts, so all throw. Counts have arrived.
   */
  @Override
  public void require(long dispatched) {
    if (ticket == dispatched && total(OVERFLOW_RANK) < handles.ranks()) {
      throw new ReceiveOverflowException(
          (int) total(OVERFLOW_RANK), total(OVERFLOW_NEEDED), total(OVERFLOW_LIMIT));
    }
  }

  private long total(int word) {
    try {
      return totals.get(ValueLayout.JAVA_LONG, word);
    } catch (IllegalStateException e) {
      // Closed between the read of the field and the load: the field now refers to the copy.
      return totals.get(ValueLayout.JAVA_LONG, word);
    }
  }

  @Override
  public long neededRows() {
    return total(NEEDED);
  }

  @Override
  public long receivedRows() {
    return total(RECEIVED);
  }

  /** Frees the memory when the buffer closes. */
  void free() {
    MemorySegment copy = MemorySegment.ofArray(new long[HandleLayout.TOTALS / Long.BYTES]);
    copy.copyFrom(totals);
    totals = copy;
    owned.close();
  }
}
