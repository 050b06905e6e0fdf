package org.ep4j.cli.bench;

import org.ep4j.cuda.driver.CudaDevice;
import org.ep4j.cuda.driver.CudaEvent;
import org.ep4j.cuda.driver.CudaStream;

/**
 * Times calls on a stream: events around the whole call, and the time that the caller itself spends
 * in it.
 */
final class CallTimer implements AutoCloseable {
  /** A call. */
  @FunctionalInterface
  interface Call {
    /** Makes it. */
    void run();
  }

  private final CudaStream stream;
  private final CudaEvent start;
  private final CudaEvent end;
  private long[] deviceNanos = {};
  private long[] hostNanos = {};

  CallTimer(CudaDevice device, CudaStream stream) {
    this.stream = stream;
    start = CudaEvent.createTimed(device);
    end = CudaEvent.createTimed(device);
  }

  /** Forgets what was timed, and makes room. */
  void expect(int calls) {
    deviceNanos = new long[calls];
    hostNanos = new long[calls];
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

  /** From the first to the last event of each call. */
  long[] deviceNanos() {
    return deviceNanos;
  }

  /** In each call, on the host. */
  long[] hostNanos() {
    return hostNanos;
  }

  @Override
  public void close() {
    end.close();
    start.close();
  }
}
