package org.ep4j.cuda.driver;

import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import org.ep4j.cuda.driver.calls.GraphCalls;
import org.ep4j.error.ErrorCode;
import org.ep4j.error.IllegalUseException;

/** Work recorded after {@link CudaStream#beginCapture}. */
public final class CudaGraph implements AutoCloseable {
  private final CudaDevice device;
  private final long handle;
  private boolean closed;

  CudaGraph(CudaDevice device, long handle) {
    this.device = device;
    this.handle = handle;
  }

  /** The CUgraph. */
  public long handle() {
    if (closed) {
      throw new IllegalUseException(
          ErrorCode.CUDA_CLOSED, "the graph of " + device + " is closed: create a new one");
    }
    return handle;
  }

  /** Number of nodes. */
  public long nodes() {
    try (Arena arena = Arena.ofConfined()) {
      MemorySegment count = arena.allocate(ValueLayout.JAVA_LONG);
      GraphCalls.nodes(handle(), 0, count.address());
      return count.get(ValueLayout.JAVA_LONG, 0);
    }
  }

  /** Creates an executable graph, which does not depend on this graph afterwards. */
  public CudaGraphExec instantiate() {
    try (var _ = device.enter()) {
      return new CudaGraphExec(device, GraphCalls.instantiate(handle(), 0));
    }
  }

  /** Destroys the graph. */
  @Override
  public synchronized void close() {
    if (!closed) {
      closed = true;
      device.giveBack(() -> GraphCalls.destroy(handle));
    }
  }
}
