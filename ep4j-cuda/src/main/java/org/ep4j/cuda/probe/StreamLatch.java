package org.ep4j.cuda.probe;

import java.time.Duration;
import java.util.Map;
import org.ep4j.cuda.driver.CudaDevice;
import org.ep4j.cuda.driver.CudaModule;
import org.ep4j.cuda.driver.CudaStream;
import org.ep4j.cuda.driver.DeviceMemory;
import org.ep4j.cuda.driver.Launch;
import org.ep4j.cuda.driver.LaunchConfig;
import org.ep4j.cuda.driver.ResourceStack;
import org.ep4j.cuda.jit.KernelCompiler;
import org.ep4j.error.ErrorCode;
import org.ep4j.error.InvalidArgumentException;

/**
 * Blocks a stream for a while: work that the host enqueues meanwhile then runs without waiting for
 * the host, so that events around it measure only its kernels. Used by one thread.
 */
public final class StreamLatch implements AutoCloseable {
  private final ResourceStack owned = new ResourceStack();
  private final Launch latch;

  private StreamLatch(CudaDevice device) {
    boolean complete = false;
    try {
      CudaModule module =
          owned.own(KernelCompiler.standard().load(device, "probe/probe.cu", Map.of()));
      // The word that the kernel polls is never written, so only the limit ends the wait.
      DeviceMemory word = owned.own(DeviceMemory.allocate(device, Long.BYTES));
      latch =
          owned.own(Launch.of(module.kernel("ep4j_probe_latch"), LaunchConfig.of(1, 1), 8, 8, 8));
      try (CudaStream stream = CudaStream.create(device)) {
        word.fill8(0, Long.BYTES, (byte) 0, stream);
        stream.synchronize();
      }
      latch.setLong(0, word.address());
      latch.setLong(1, 1);
      complete = true;
    } finally {
      if (!complete) {
        owned.close();
      }
    }
  }

  /** A gate for streams of a device, which is current for this thread. */
  public static StreamLatch of(CudaDevice device) {
    return new StreamLatch(device);
  }

  /** Delays work enqueued in {@code stream} from now on by {@code time} after the earlier work. */
  public void hold(CudaStream stream, Duration time) {
    if (time.isNegative() || time.isZero()) {
      throw new InvalidArgumentException(
          ErrorCode.PROBE_LOAD, "time", time.toString(), "positive", "hold the stream for a while");
    }
    latch.setLong(2, time.toNanos());
    latch.launch(stream);
  }

  /** No stream may be blocked any more. */
  @Override
  public void close() {
    owned.close();
  }
}
