package org.ep4j.cuda.driver;

/** A graph that is ready to launch, any number of times. */
public final class CudaGraphExec implements AutoCloseable {
  private final CudaDevice device;
  private final long handle;
  private boolean closed;

  CudaGraphExec(CudaDevice device, long handle) {
    this.device = device;
    this.handle = handle;
  }

  /** The CUgraphExec, for other libraries. */
  public long handle() {
    if (closed) {
      throw new IllegalStateException("the graph of " + device + " is closed");
    }
    return handle;
  }

  /** Brings to the device what the first launch would bring. */
  public void upload(CudaStream stream) {
    GraphCalls.upload(handle(), stream.handle());
  }

  /** Runs the recorded work in stream order. Allocates nothing. */
  public void launch(CudaStream stream) {
    GraphCalls.launch(handle(), stream.handle());
  }

  /** Destroys it. */
  @Override
  public synchronized void close() {
    if (!closed) {
      closed = true;
      device.giveBack(() -> GraphCalls.destroyExec(handle));
    }
  }
}
