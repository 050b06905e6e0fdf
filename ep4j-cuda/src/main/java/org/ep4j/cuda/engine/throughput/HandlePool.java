package org.ep4j.cuda.engine.throughput;

import java.util.ArrayDeque;
import java.util.concurrent.atomic.AtomicLong;
import org.ep4j.cuda.driver.CudaDevice;
import org.ep4j.cuda.driver.ResourceStack;
import org.ep4j.cuda.engine.failure.Completion;

/**
 * The handles of one buffer. Closed handles are reused in FIFO order and only after some others, so
 * that use of a closed handle is detected. The memory is freed when the buffer closes. Any thread
 * may return a handle; one thread at a time takes handles.
 */
public final class HandlePool implements AutoCloseable {
  private static final int REST = 4;

  private final CudaDevice device;
  private final HandleLayout layout;
  private final Completion completion;
  private final int ranks;
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
   *     handle is used
   */
  synchronized CudaHandle take(boolean capturing) {
    if (resting.size() > (capturing ? 0 : REST)) {
      CudaHandle handle = resting.remove();
      handle.open();
      return handle;
    }
    CudaHandle handle = new CudaHandle(this, device, layout);
    owned.own(handle::free);
    handles++;
    return handle;
  }

  synchronized void give(CudaHandle handle) {
    resting.add(handle);
  }

  /** A handle has allocated memory for its first EXPERT_MAJOR dispatch. */
  void grew(long bytes) {
    expertMajorBytes.addAndGet(bytes);
  }

  /** Bytes on the device. */
  public synchronized long deviceBytes() {
    return handles * layout.deviceBytes + expertMajorBytes.get();
  }

  /** Frees the memory of all handles. */
  @Override
  public synchronized void close() {
    handles = 0;
    expertMajorBytes.set(0);
    resting.clear();
    owned.close();
  }
}
