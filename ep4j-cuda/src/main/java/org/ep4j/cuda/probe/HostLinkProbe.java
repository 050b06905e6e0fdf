package org.ep4j.cuda.probe;

import org.ep4j.cuda.driver.CudaDevice;
import org.ep4j.cuda.driver.CudaEvent;
import org.ep4j.cuda.driver.CudaStream;
import org.ep4j.cuda.driver.DeviceMemory;
import org.ep4j.cuda.driver.PinnedMemory;
import org.ep4j.cuda.driver.ResourceStack;

/**
 * Bandwidth of a GPU's copy engines to and from page-locked host memory in both directions at once: the upper bound for rows that travel between nodes through that memory. Used by one thread.
 */
public final class HostLinkProbe implements AutoCloseable {
  /** Larger than the caches near the link. */
  private static final long BYTES = 64L << 20;

  private final ResourceStack owned = new ResourceStack();
  private final Direction out;
  private final Direction in;

  private HostLinkProbe(CudaDevice device) {
    boolean complete = false;
    try {
      out = direction(device);
      in = direction(device);
      complete = true;
    } finally {
      if (!complete) {
        owned.close();
      }
    }
  }

  private Direction direction(CudaDevice device) {
    Direction made =
        new Direction(
            owned.own(DeviceMemory.allocate(device, BYTES)),
            owned.own(PinnedMemory.allocate(device, BYTES)),
            owned.own(CudaStream.create(device)),
            owned.own(CudaEvent.createTimed(device)),
            owned.own(CudaEvent.createTimed(device)));
    // Copies end before memory is freed.
    owned.own(made.stream::synchronize);
    return made;
  }

  /** A probe of a device, whose context becomes current. Uses 128 MiB on the device and on the host. */
  public static HostLinkProbe open(CudaDevice device) {
    device.makeCurrent();
    return new HostLinkProbe(device);
  }

  /**
   * Copies 64 MiB {@code copies} times in each direction, both at once, and waits; returns 10^9 bytes per second of the slower direction.
   *
   * @param copies at least 1
   */
  public double measure(int copies) {
    out.start.record(out.stream);
    in.start.record(in.stream);
    for (int i = 0; i < copies; i++) {
      out.memory.copyTo(0, out.host.segment(), out.stream);
      in.memory.copyFrom(0, in.host.segment(), in.stream);
    }
    out.end.record(out.stream);
    in.end.record(in.stream);
    return copies * BYTES / (Math.max(out.millis(), in.millis()) * 1e6);
  }

  @Override
  public void close() {
    owned.close();
  }

  /** Memory at both ends and the stream of the copies in one direction. */
  private record Direction(
      DeviceMemory memory, PinnedMemory host, CudaStream stream, CudaEvent start, CudaEvent end) {
    double millis() {
      stream.synchronize();
      return end.millisSince(start);
    }
  }
}
