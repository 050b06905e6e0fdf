package org.ep4j.cuda.driver;

import org.ep4j.cuda.driver.calls.GraphCalls;
import org.ep4j.error.ErrorCode;
import org.ep4j.error.IllegalUseException;

/** An executable graph, launched any number of times. */
public final class CudaGraphExec implements AutoCloseable {
  private final CudaDevice device;
  private final long handle;
  private boolean closed;

  CudaGraphExec(CudaDevice device, long handle) {
    this.device = device;
    this.handle = handle;
  }

  /** The CUgraphExec. */
  public long handle() {
    if (closed) {
      throw new IllegalUseException(
          ErrorCode.CUDA_CLOSED, "the graph of " + device + " is closed: create a new one");
    }
    return handle;
  }

  /** Uploads the graph to the device ahead of the first launch. */
  public void upload(CudaStream stream) {
    GraphCalls.upload(handle(), stream.handle());
  }

  /** Runs the recorded work in stream order. Allocates nothing. */
  public void launch(CudaStream stream) {
    GraphCalls.launch(handle(), stream.handle());
  }

  /** Destroys the executable graph. */
  @Override
  public synchronized void close() {
    if (!closed) {
      closed = true;
      device.giveBack(() -> GraphCalls.destroyExec(handle));
    }
  }
}
