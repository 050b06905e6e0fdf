package org.ep4j.cuda.engine.throughput;

import java.util.ArrayDeque;
import java.util.concurrent.atomic.AtomicLong;
import java.util.concurrent.atomic.AtomicReference;
import org.ep4j.Layout;
import org.ep4j.cuda.driver.CudaDevice;
import org.ep4j.cuda.driver.ResourceStack;
import org.ep4j.cuda.engine.failure.Completion;
import org.jspecify.annotations.Nullable;

/**
 * The handles of one buffer. Closed handles are reused in FIFO order and only after some others, so
 * that use of a closed handle is detected. The memory is freed when the buffer closes.
 *
 * <p>Any thread may return a handle: it pushes the handle onto a list with compare-and-set. The
 * thread in the buffer, one at a time, takes the whole list at once; all else belongs to it.
 */
public final class HandlePool implements AutoCloseable {
  private static final int REST = 4;

  private final CudaDevice device;
  private final HandleLayout layout;
  private final Completion completion;
  private final int ranks;

  /** The handle that was returned last, linked to those before it. */
  private final AtomicReference<@Nullable CudaHandle> returned = new AtomicReference<>();

  /** Handles that this pool has collected, in the order of their return. */
  private final ArrayDeque<CudaHandle> resting = new ArrayDeque<>();

  /** The memory of all handles. */
  private final ResourceStack owned = new ResourceStack();

  private int handles;

  /** Bytes that handles have allocated for EXPERT_MAJOR dispatches. */
  private final AtomicLong expertMajorBytes = new AtomicLong();

  public HandlePool(CudaDevice device, HandleLayout layout, Completion completion, int ranks) {
    this.ranks = ranks;
    this.device = device;
    this.layout = layout;
    this.completion = completion;
  }

  Completion completion() {
    return completion;
  }

  int ranks() {
    return ranks;
  }

  /**
   * An open handle.
   *
   * @param capturing whether a graph is being captured: allocation is impossible then, so any free
   *     handle with the memory for {@code rows} is used
   */
  CudaHandle take(Layout rows, boolean capturing) {
    collect();
    CudaHandle rested =
        capturing ? complete(rows) : resting.size() > REST ? resting.remove() : null;
    if (rested != null) {
      rested.open();
      return rested;
    }
    CudaHandle handle = new CudaHandle(this, device, layout);
    owned.own(handle::free);
    handles++;
    return handle;
  }

  /** Removes a resting handle that has all its memory; null if there is none. */
  private @Nullable CudaHandle complete(Layout rows) {
    for (CudaHandle handle : resting) {
      if (handle.isComplete(rows)) {
        resting.remove(handle);
        return handle;
      }
    }
    return null;
  }

  void give(CudaHandle handle) {
    CudaHandle last;
    do {
      last = returned.get();
      handle.before = last;
    } while (!returned.compareAndSet(last, handle));
  }

  /** Appends the returned handles to those that rest, oldest first. */
  private void collect() {
    CudaHandle newest = returned.getAndSet(null);
    CudaHandle oldest = null;
    while (newest != null) {
      CudaHandle before = newest.before;
      newest.before = oldest;
      oldest = newest;
      newest = before;
    }
    while (oldest != null) {
      resting.add(oldest);
      CudaHandle after = oldest.before;
      oldest.before = null;
      oldest = after;
    }
  }

  /** A handle has allocated memory for its first EXPERT_MAJOR dispatch. */
  void grew(long bytes) {
    expertMajorBytes.addAndGet(bytes);
  }

  /** Bytes on the device. */
  public long deviceBytes() {
    return handles * layout.deviceBytes + expertMajorBytes.get();
  }

  /** Frees the memory of all handles. */
  @Override
  public void close() {
    handles = 0;
    expertMajorBytes.set(0);
    resting.clear();
    owned.close();
  }
}
