package org.ep4j.cuda.engine;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import java.time.Duration;
import java.util.Map;
import org.ep4j.DispatchOptions;
import org.ep4j.ExpertBuffer;
import org.ep4j.Sizing;
import org.ep4j.Tokens;
import org.ep4j.cuda.driver.CudaDevice;
import org.ep4j.cuda.driver.CudaModule;
import org.ep4j.cuda.driver.CudaStream;
import org.ep4j.cuda.driver.Gpu;
import org.ep4j.cuda.driver.Launch;
import org.ep4j.cuda.driver.LaunchConfig;
import org.ep4j.cuda.driver.PinnedMemory;
import org.ep4j.cuda.jit.KernelCompiler;
import org.ep4j.error.Ep4jException;
import org.ep4j.error.ErrorCode;
import org.ep4j.execution.DeviceStream;
import org.ep4j.execution.Execution;
import org.ep4j.group.Group;
import org.ep4j.memory.NativeMemory;
import org.junit.jupiter.api.Test;

/** A stream that never runs its dispatch does not block the close of other ranks; takes 20 s. */
class StuckCloseTest {
  private static final int TOKENS = 16;

  /** Limit of the kernel that blocks the stream, in case the test does not end it. */
  private static final long LIMIT_NANOS = Duration.ofSeconds(60).toNanos();

  @Test
  void closingAbortsOnceAndReportsWhatStaysAllocated() {
    Gpu.require(1);
    try (CudaDevice device = CudaDevice.open(0);
        Group group = Group.inProcess(1).getFirst()) {
      device.makeCurrent();
      try (CudaStream stream = CudaStream.create(device);
          CudaModule module = KernelCompiler.standard().load(device, "probe/probe.cu", Map.of());
          PinnedMemory latch = PinnedMemory.allocate(device, Long.BYTES);
          Batch batch = new Batch(device, TOKENS);
          Launch holding =
              Launch.of(module.kernel("ep4j_probe_latch"), LaunchConfig.of(1, 1), 8, 8, 8)) {
        NativeMemory.putLongRelease(latch.hostAddress(), 0);
        batch.fill(0, 1);
        ExpertBuffer buffer =
            ExpertBuffer.open(group, Batch.config(TOKENS).timeout(Duration.ofSeconds(1)).build());
        DispatchOptions options =
            DispatchOptions.builder()
                .sizing(Sizing.atMost(TOKENS))
                .execution(Execution.on(new DeviceStream(stream.handle())))
                .build();
        // Until a handle is reused: no allocation is possible while the stream is blocked.
        for (int i = 0; i < 6; i++) {
          buffer.dispatch(Tokens.of(batch.x), batch.routing, options).handle().close();
        }
        stream.synchronize();
        holding.setLong(0, latch.deviceAddress());
        holding.setLong(1, 1);
        holding.setLong(2, LIMIT_NANOS);
        holding.launch(stream);
        buffer.dispatch(Tokens.of(batch.x), batch.routing, options);
        assertThatThrownBy(buffer::close)
            .isInstanceOf(Ep4jException.class)
            .hasMessageStartingWith(ErrorCode.BUFFER_LEFT_OPEN.id())
            .hasMessageContaining("MiB");
        assertThat(stream.query()).as("the stream is blocked").isFalse();
        buffer.close();
        NativeMemory.putLongRelease(latch.hostAddress(), 1);
        // The resources that the buffer left are intact: the dispatch ends.
        stream.synchronize();
      }
    }
  }
}
