package org.ep4j.cuda.engine.throughput;

import java.util.concurrent.atomic.AtomicLong;
import java.util.function.Supplier;
import org.ep4j.cuda.backend.StepFailure;
import org.ep4j.cuda.driver.CudaDevice;
import org.ep4j.cuda.driver.ResourceStack;
import org.ep4j.cuda.engine.failure.Completion;
import org.ep4j.engine.throughput.HandlePool;

/** The handles of one buffer and their memory, which is freed when the buffer closes. */
public final class CudaHandles implements AutoCloseable {
  private final CudaDevice device;
  private final HandleLayout layout;
  private final Completion completion;
  private final int rank;
  private final int ranks;
  private final HandlePool<CudaHandle> pool = new HandlePool<>(Integer.MAX_VALUE, this::make);

  /** The memory of all handles. */
  private final ResourceStack owned = new ResourceStack();

  private int handles;

  /** Bytes that handles have allocated for EXPERT_MAJOR dispatches. */
  private final AtomicLong expertMajorBytes = new AtomicLong();

  public CudaHandles(
      CudaDevice device, HandleLayout layout, Completion completion, int rank, int ranks) {
    this.rank = rank;
    this.ranks = ranks;
    this.device = device;
    this.layout = layout;
    this.completion = completion;
  }

  private CudaHandle make(HandlePool<CudaHandle> of) {
    CudaHandle handle =
        explained("the memory of a handle", () -> new CudaHandle(of, this, device, layout));
    owned.own(handle::free);
    handles++;
    return handle;
  }

  /** Allocates memory of a handle. */
  <T> T explained(String what, Supplier<T> allocation) {
    return StepFailure.explained(rank, what, allocation);
  }

  HandlePool<CudaHandle> pool() {
    return pool;
  }

  Completion completion() {
    return completion;
  }

  int ranks() {
    return ranks;
  }

  /** An open handle. */
  CudaHandle take() {
    return pool.take();
  }

  /** A handle has allocated memory for its first EXPERT_MAJOR dispatch. */
  void grew(long bytes) {
    expertMajorBytes.addAndGet(bytes);
  }

  /** Bytes on the device and of page-locked memory. */
  public long bytes() {
    return handles * (layout.deviceBytes + layout.hostBytes) + expertMajorBytes.get();
  }

  /** Frees the memory of all handles. */
  @Override
  public void close() {
    handles = 0;
    expertMajorBytes.set(0);
    owned.close();
  }
}
