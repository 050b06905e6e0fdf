package org.ep4j.cuda.engine;

import static org.assertj.core.api.Assertions.assertThat;

import com.sun.management.ThreadMXBean;
import java.lang.management.ManagementFactory;
import org.ep4j.CombineOptions;
import org.ep4j.Dispatch;
import org.ep4j.DispatchHandle;
import org.ep4j.DispatchOptions;
import org.ep4j.ExpertBuffer;
import org.ep4j.Sizing;
import org.ep4j.Tokens;
import org.ep4j.cuda.driver.CudaDevice;
import org.ep4j.cuda.driver.CudaStream;
import org.ep4j.cuda.driver.Gpu;
import org.ep4j.execution.DeviceStream;
import org.ep4j.execution.Execution;
import org.ep4j.group.ThreadRanks;
import org.junit.jupiter.api.Test;

/** A warm call on device tensors allocates nothing but the event of an asynchronous operation. */
class CallCostTest {
  private static final int TOKENS = 16;
  private static final int WARM = 20_000;
  private static final int MEASURED = 5_000;
  private static final int EVENT_BYTES = 32;

  @Test
  void warmCallsAllocateTheirEventsOnly() {
    Gpu.require(1);
    ThreadRanks.run(
        1,
        group -> {
          try (CudaDevice device = CudaDevice.open(0);
              ExpertBuffer buffer = ExpertBuffer.open(group, Batch.config(TOKENS).build());
              Batch batch = new Batch(device, TOKENS)) {
            device.makeCurrent();
            batch.fill(0, 1);
            try (CudaStream stream = CudaStream.create(device)) {
              DeviceStream on = new DeviceStream(stream.handle());
              DispatchOptions dispatching =
                  DispatchOptions.builder()
                      .sizing(Sizing.atMost(TOKENS))
                      .execution(Execution.on(on))
                      .build();
              CombineOptions combining =
                  CombineOptions.builder().execution(Execution.on(on)).build();
              Tokens tokens = Tokens.of(batch.x);
              pairs(buffer, batch, tokens, dispatching, combining, WARM);
              stream.synchronize();
              ThreadMXBean threads = (ThreadMXBean) ManagementFactory.getThreadMXBean();
              long before = threads.getCurrentThreadAllocatedBytes();
              pairs(buffer, batch, tokens, dispatching, combining, MEASURED);
              long bytes = threads.getCurrentThreadAllocatedBytes() - before;
              System.out.println("allocated by " + MEASURED + " pairs: " + bytes + " bytes");
              assertThat(bytes).isLessThan(MEASURED * 2L * EVENT_BYTES + 10_000);
            }
          }
        });
  }

  private static void pairs(
      ExpertBuffer buffer,
      Batch batch,
      Tokens tokens,
      DispatchOptions dispatching,
      CombineOptions combining,
      int times) {
    for (int i = 0; i < times; i++) {
      Dispatch dispatch = buffer.dispatch(tokens, batch.routing, dispatching);
      try (DispatchHandle handle = dispatch.handle()) {
        buffer.combine(dispatch.x(), handle, combining);
      }
    }
  }
}
