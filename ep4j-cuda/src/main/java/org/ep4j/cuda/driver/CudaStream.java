package org.ep4j.cuda.driver;

import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import org.ep4j.cuda.driver.calls.CudaException;
import org.ep4j.cuda.driver.calls.DeviceCalls;
import org.ep4j.cuda.driver.calls.DriverConstants;
import org.ep4j.cuda.driver.calls.DriverFunction;
import org.ep4j.cuda.driver.calls.StreamCalls;
import org.ep4j.error.ErrorCode;
import org.ep4j.error.IllegalUseException;
import org.ep4j.error.InvalidArgumentException;

/** A queue of work on a device. Either owned, or a view of a stream of another library. */
public final class CudaStream implements AutoCloseable {
  private final CudaDevice device;
  private final long handle;
  private final boolean owned;

  /**
   * Result word for the driver, allocated once: a query before every operation allocates nothing.
   */
  private final MemorySegment word;

  private final Arena arena = Arena.ofShared();

  private boolean closed;

  private CudaStream(CudaDevice device, long handle, boolean owned) {
    this.device = device;
    this.handle = handle;
    this.owned = owned;
    this.word = arena.allocate(ValueLayout.JAVA_INT);
  }

  /** A new stream of normal priority, not synchronised with the default stream. */
  public static CudaStream create(CudaDevice device) {
    return create(device, 0);
  }

  /** A new stream of the highest priority. */
  public static CudaStream createUrgent(CudaDevice device) {
    return create(device, highestPriority(device));
  }

  private static CudaStream create(CudaDevice device, int priority) {
    try (var _ = device.enter()) {
      return new CudaStream(
          device, StreamCalls.create(DriverConstants.CU_STREAM_NON_BLOCKING, priority), true);
    } catch (CudaException e) {
      throw MissingMemory.ofDevice(e, device, "a stream");
    }
  }

  /**
   * A view of a CUstream or cudaStream_t that another library made on {@code device}; 0 is the
   * default stream. Closing the view does not destroy the stream.
   */
  public static CudaStream wrapping(CudaDevice device, long rawHandle) {
    if (rawHandle < 0) {
      throw new InvalidArgumentException(
          ErrorCode.CUDA_HANDLE,
          "stream",
          String.valueOf(rawHandle),
          "a CUstream or 0",
          "pass the handle as it is");
    }
    return new CudaStream(device, rawHandle, false);
  }

  private static int highestPriority(CudaDevice device) {
    try (var _ = device.enter();
        Arena arena = Arena.ofConfined()) {
      MemorySegment range = arena.allocate(ValueLayout.JAVA_INT, 2);
      DeviceCalls.streamPriorityRange(range.address(), range.address() + Integer.BYTES);
      return range.getAtIndex(ValueLayout.JAVA_INT, 1);
    }
  }

  /** The CUstream. */
  public long handle() {
    if (closed) {
      throw new IllegalUseException(
          ErrorCode.CUDA_CLOSED, "the stream of " + device + " is closed: create a new one");
    }
    return handle;
  }

  /** Device of the stream. */
  public CudaDevice device() {
    return device;
  }

  /** Waits until all work enqueued so far is done. */
  public void synchronize() {
    try (var _ = device.enter()) {
      StreamCalls.synchronize(handle());
    }
  }

  /** Whether all work enqueued so far is done. Allocates nothing. */
  public boolean query() {
    int result = StreamCalls.query(handle());
    if (result == DriverConstants.CUDA_ERROR_NOT_READY) {
      return false;
    }
    CudaException.check(result, DriverFunction.STREAM_QUERY);
    return true;
  }

  /** Work enqueued from now on waits for {@code event}. Allocates nothing. */
  public void waitFor(CudaEvent event) {
    StreamCalls.waitEvent(handle(), event.handle(), 0);
  }

  /** Starts recording work into a graph instead of running it. */
  public void beginCapture() {
    beginCapture(CaptureMode.THREAD_LOCAL);
  }

  /** Starts recording work into a graph instead of running it. */
  public void beginCapture(CaptureMode mode) {
    try (var _ = device.enter()) {
      StreamCalls.beginCapture(handle(), mode.ordinal());
    }
  }

  /** Ends recording. */
  public CudaGraph endCapture() {
    try (var _ = device.enter()) {
      return new CudaGraph(device, StreamCalls.endCapture(handle()));
    }
  }

  /** Whether the stream records work instead of running it. */
  public boolean capturing() {
    return StreamCalls.captureStatus(handle(), word)
        != DriverConstants.CU_STREAM_CAPTURE_STATUS_NONE;
  }

  /** Destroys an owned stream; enqueued work still runs. */
  @Override
  public synchronized void close() {
    if (!closed) {
      closed = true;
      arena.close();
      if (owned) {
        device.giveBack(() -> StreamCalls.destroy(handle));
      }
    }
  }
}
