package org.ep4j.cuda.driver;

import java.time.Duration;
import java.util.concurrent.TimeUnit;
import org.ep4j.cuda.driver.calls.CudaException;
import org.ep4j.cuda.driver.calls.DriverConstants;
import org.ep4j.cuda.driver.calls.DriverFunction;
import org.ep4j.cuda.driver.calls.StreamCalls;
import org.ep4j.error.ErrorCode;
import org.ep4j.error.IllegalUseException;

/**
 * A point in the work of a stream that streams and host threads can wait for. Either owned, or a
 * view of an event of another library.
 */
public final class CudaEvent implements AutoCloseable {
  private static final int SPINS = 1000;

  private final CudaDevice device;
  private final long handle;
  private final boolean owned;
  private boolean closed;

  private CudaEvent(CudaDevice device, long handle, boolean owned) {
    this.device = device;
    this.handle = handle;
    this.owned = owned;
  }

  /** A new event without timing, which is cheaper. */
  public static CudaEvent create(CudaDevice device) {
    return create(device, DriverConstants.CU_EVENT_DISABLE_TIMING);
  }

  /** A new event with timing, for {@link #millisSince}. */
  public static CudaEvent createTimed(CudaDevice device) {
    return create(device, DriverConstants.CU_EVENT_DEFAULT);
  }

  private static CudaEvent create(CudaDevice device, int flags) {
    try (var _ = device.enter()) {
      return new CudaEvent(device, StreamCalls.createEvent(flags), true);
    }
  }

  /** A view of a CUevent of another library; closing the view does not destroy the event. */
  public static CudaEvent wrapping(CudaDevice device, long rawHandle) {
    return new CudaEvent(device, rawHandle, false);
  }

  /** The CUevent. */
  public long handle() {
    if (closed) {
      throw new IllegalUseException(
          ErrorCode.CUDA_CLOSED, "the event of " + device + " is closed: create a new one");
    }
    return handle;
  }

  /** Records the event after all work enqueued in {@code stream} so far. Allocates nothing. */
  public void record(CudaStream stream) {
    StreamCalls.recordEvent(handle(), stream.handle());
  }

  /** Same as {@link #record(CudaStream)} for a raw CUstream. */
  public void record(long stream) {
    StreamCalls.recordEvent(handle(), stream);
  }

  /** Whether the event has completed or was never recorded. Allocates nothing. */
  public boolean query() {
    int result = StreamCalls.queryEvent(handle());
    if (result == DriverConstants.CUDA_ERROR_NOT_READY) {
      return false;
    }
    CudaException.check(result, DriverFunction.EVENT_QUERY);
    return true;
  }

  /** Waits without limit until the event has completed; for work that has its own deadline. */
  public void synchronize() {
    StreamCalls.synchronizeEvent(handle());
  }

  /** Waits until the event has completed, at most {@code limit}. Allocates nothing. */
  public boolean await(Duration limit) {
    long start = System.nanoTime();
    long nanos = TimeUnit.NANOSECONDS.convert(limit);
    for (int attempt = 1; !query(); attempt++) {
      if (attempt % SPINS != 0) {
        Thread.onSpinWait();
      } else if (System.nanoTime() - start > nanos) {
        return false;
      } else {
        Thread.yield();
      }
    }
    return true;
  }

  /** Milliseconds from {@code start} to this event; both have timing and have completed. */
  public float millisSince(CudaEvent start) {
    return StreamCalls.elapsedMillis(start.handle(), handle());
  }

  /** Destroys an owned event. */
  @Override
  public synchronized void close() {
    if (!closed) {
      closed = true;
      if (owned) {
        device.giveBack(() -> StreamCalls.destroyEvent(handle));
      }
    }
  }
}
