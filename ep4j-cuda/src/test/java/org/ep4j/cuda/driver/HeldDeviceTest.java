package org.ep4j.cuda.driver;

import static org.assertj.core.api.Assertions.assertThat;

import java.time.Duration;
import java.util.List;
import java.util.Map;
import org.ep4j.cuda.jit.KernelCompiler;
import org.ep4j.memory.NativeMemory;
import org.junit.jupiter.api.Test;

/** Closing objects of a device while a kernel runs that never ends. */
class HeldDeviceTest {
  /** Limit of the kernel: the driver would wait until then. */
  private static final Duration LIMIT = Duration.ofSeconds(40);

  /** Closes everything while a kernel runs, in a separate process that keeps the resources. */
  static final class Program {
    private Program() {}

    public static void main(String[] arguments) {
      CudaDevice device = CudaDevice.open(0);
      device.makeCurrent();
      CudaStream stream = CudaStream.create(device);
      CudaModule module = KernelCompiler.standard().load(device, "probe/probe.cu", Map.of());
      PinnedMemory latch = PinnedMemory.allocate(device, Long.BYTES);
      NativeMemory.putLongRelease(latch.hostAddress(), 0);
      DeviceMemory memory = DeviceMemory.allocate(device, 1 << 20);
      CudaEvent end = CudaEvent.create(device);
      try (Launch holding =
          Launch.of(module.kernel("ep4j_probe_latch"), LaunchConfig.of(1, 1), 8, 8, 8)) {
        holding.setLong(0, latch.deviceAddress());
        holding.setLong(1, 1);
        holding.setLong(2, LIMIT.toNanos());
        holding.launch(stream);
      }
      end.record(stream);
      device.hold();
      memory.close();
      latch.close();
      module.close();
      System.out.println("ended: " + end.query());
      end.close();
      stream.close();
      device.close();
      System.out.println("closed");
    }
  }

  @Test
  void closingDoesNotWaitForAnEndlessKernel() throws Exception {
    Gpu.require(1);
    long begin = System.nanoTime();
    assertThat(ForkedJvm.run(Program.class, Map.of(), List.of()))
        .contains("ended: false", "closed");
    assertThat(Duration.ofNanos(System.nanoTime() - begin)).isLessThan(LIMIT);
  }
}
