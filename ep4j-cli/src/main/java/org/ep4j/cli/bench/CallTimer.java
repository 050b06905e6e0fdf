package org.ep4j.cli.bench;

import java.time.Duration;
import org.ep4j.cuda.driver.CudaEvent;
import org.ep4j.cuda.driver.CudaStream;
import org.ep4j.cuda.probe.StreamLatch;

/**
 * Times calls on a stream: events around the whole call, host time of the caller, and in separate
 * calls the time of the kernels alone.
 */
final class CallTimer implements AutoCloseable {
  /** A call. */
  @FunctionalInterface
  interface Call {
    /** Makes the call. */
    void run();
  }

  /** A method of timing a call. */
  @FunctionalInterface
  interface CallMode {
    /** Makes the i-th call and waits for its end. */
    void time(CallTimer timer, int i, Call call);
  }

  /** Longer than enqueueing a call takes. */
  private static final Duration HELD = Duration.ofNanos(200_000);

  private final CudaStream stream;
  private final StreamLatch latch;
  private final CudaEvent start;
  private final CudaEvent end;
  private long[] deviceNanos = {};
  private long[] hostNanos = {};
  private long[] kernelNanos = {};

  CallTimer(DeviceWork work) {
    stream = work.stream;
    latch = work.latch;
    start = CudaEvent.createTimed(work.device);
    end = CudaEvent.createTimed(work.device);
  }

  /** Discards old times and allocates arrays for new ones. */
  void expect(int calls) {
    deviceNanos = new long[calls];
    hostNanos = new long[calls];
    kernelNanos = new long[calls];
  }

  /** Makes the i-th call and waits for its end. */
  void time(int i, Call call) {
    start.record(stream);
    long before = System.nanoTime();
    call.run();
    hostNanos[i] = System.nanoTime() - before;
    end.record(stream);
    end.synchronize();
    deviceNanos[i] = (long) (end.millisSince(start) * 1e6);
  }

  /**
   * Makes the i-th call while the stream is held. When the stream continues, all kernels of the
   * call are enqueued, so the time between the events contains no host time.
   */
  void timeKernels(int i, Call call) {
    latch.hold(stream, HELD);
    start.record(stream);
    call.run();
    end.record(stream);
    end.synchronize();
    kernelNanos[i] = (long) (end.millisSince(start) * 1e6);
  }

  /** Time between the events of each call. */
  long[] deviceNanos() {
    return deviceNanos;
  }

  /** Host time of each call. */
  long[] hostNanos() {
    return hostNanos;
  }

  /** Time of the kernels of each call. */
  long[] kernelNanos() {
    return kernelNanos;
  }

  @Override
  public void close() {
    end.close();
    start.close();
  }
}
