package org.ep4j.cuda.probe;

import static org.assertj.core.api.Assertions.assertThat;

import java.time.Duration;
import org.ep4j.cuda.driver.CudaDevice;
import org.ep4j.cuda.driver.CudaEvent;
import org.ep4j.cuda.driver.CudaStream;
import org.ep4j.cuda.driver.Gpu;
import org.junit.jupiter.api.Test;

/** Needs a GPU. */
class StreamLatchTest {
  @Test
  void laterWorkWaitsForTheTime() {
    Duration time = Duration.ofMillis(50);
    try (CudaDevice device = Gpu.open();
        CudaStream stream = CudaStream.create(device);
        StreamLatch latch = StreamLatch.of(device);
        CudaEvent before = CudaEvent.createTimed(device);
        CudaEvent behind = CudaEvent.createTimed(device)) {
      before.record(stream);
      latch.hold(stream, time);
      behind.record(stream);
      assertThat(behind.query()).as("the stream continues immediately").isFalse();
      behind.synchronize();
      // The clock of the kernel and that of the events differ.
      assertThat(behind.millisSince(before)).isGreaterThan(0.9f * time.toMillis());
    }
  }
}
