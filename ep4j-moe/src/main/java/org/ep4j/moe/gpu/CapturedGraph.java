package org.ep4j.moe.gpu;

import org.ep4j.cuda.driver.CaptureMode;
import org.ep4j.cuda.driver.CudaGraph;
import org.ep4j.cuda.driver.CudaGraphExec;
import org.ep4j.cuda.driver.CudaStream;

/** Work of a stream as a CUDA graph. */
final class CapturedGraph implements CapturedWork {
  private final CudaStream stream;
  private final CudaGraphExec graph;

  private CapturedGraph(CudaStream stream, CudaGraphExec graph) {
    this.stream = stream;
    this.graph = graph;
  }

  /** Records what {@code calls} enqueues in a stream, and in others that wait for it and join. */
  static CapturedGraph of(CudaStream stream, Runnable calls) {
    // Other ranks may be threads of this process.
    stream.beginCapture(CaptureMode.THREAD_LOCAL);
    try {
      calls.run();
    } catch (RuntimeException | Error e) {
      try {
        stream.endCapture().close();
      } catch (RuntimeException invalid) {
        e.addSuppressed(invalid);
      }
      throw e;
    }
    try (CudaGraph recorded = stream.endCapture()) {
      CudaGraphExec graph = recorded.instantiate();
      try {
        graph.upload(stream);
        stream.synchronize();
        return new CapturedGraph(stream, graph);
      } catch (RuntimeException | Error e) {
        graph.close();
        throw e;
      }
    }
  }

  @Override
  public void enqueue() {
    graph.launch(stream);
  }

  @Override
  public void close() {
    graph.close();
  }
}
