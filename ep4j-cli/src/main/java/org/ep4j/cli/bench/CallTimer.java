package org.ep4j.cli.bench;

import java.time.Duration;
import org.ep4j.cuda.driver.CudaEvent;
import org.ep4j.cuda.driver.CudaStream;
import org.ep4j.cuda.probe.StreamGate;

/**
 * Times calls on a stream: events around the whole call, the time that the caller itself spends in
 * it, and, in calls of their own, the time of its kernels alone.
 */
final class CallTimer implements AutoCloseable {
  /** A call. */
  @FunctionalInterface
  interface Call {
    /** Makes it. */
    void run();
  }

  /** A way to time a call. */
  @FunctionalInterface
  interface CallMode {
    /** Makes the i-th call and waits for its end. */
    void time(CallTimer timer, int i, Call call);
  }

  /** Longer than a caller needs to enqueue a call. */
  private static final Duration HELD = Duration.ofNanos(200_000);

  private final CudaStream stream;
  private final StreamGate gate;
  private final CudaEvent start;
  private final CudaEvent end;
  private long[] deviceNanos = {};
  private long[] hostNanos = {};
  private long[] kernelNanos = {};

  CallTimer(DeviceWork work) {
    stream = work.stream;
    gate = work.gate;
    start = CudaEvent.createTimed(work.device);
    end = CudaEvent.createTimed(work.device);
  }

  /** Forgets what was timed, and makes room. */
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
   * The same while the stream is held: by the time it goes on, the kernels of the call stand in it
   * one behind the other, and between the events there is nothing of the host.
   */
  void timeKernels(int i, Call call) {
    gate.hold(stream, HELD);
    start.record(stream);
    call.run();
    end.record(stream);
    end.synchronize();
    kernelNanos[i] = (long) (end.millisSince(start) * 1e6);
  }

  /** From the first to the last event of each call. */
  long[] deviceNanos() {
    return deviceNanos;
  }

  /** In each call, on the host. */
  long[] hostNanos() {
    return hostNanos;
  }

  /** Of the kernels of each call. */
  long[] kernelNanos() {
    return kernelNanos;
  }

  @Override
  public void close() {
    end.close();
    start.close();
  }
}
