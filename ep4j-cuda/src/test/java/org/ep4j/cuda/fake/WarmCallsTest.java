package org.ep4j.cuda.fake;

import static org.assertj.core.api.Assertions.assertThat;

import com.sun.management.ThreadMXBean;
import java.lang.management.ManagementFactory;
import org.ep4j.CombineOptions;
import org.ep4j.Dispatch;
import org.ep4j.DispatchHandle;
import org.ep4j.DispatchOptions;
import org.ep4j.Layout;
import org.ep4j.group.ThreadRanks;
import org.junit.jupiter.api.Test;

/** What warm calls allocate on the heap of Java: nothing but the events of asynchronous calls. */
@OnFakeDriver
class WarmCallsTest {
  private static final int WARM = 20_000;
  private static final int MEASURED = 5_000;
  private static final int EVENT_BYTES = 32;

  /** Measuring itself, and code that the JVM compiles meanwhile. */
  private static final int NOISE = 10_000;

  @Test
  void waitingCallsAllocateNothing() {
    OneRank.run(
        rank ->
            assertThat(
                    allocated(
                        () ->
                            pair(
                                rank,
                                Layout.FLAT,
                                DispatchOptions.DEFAULT,
                                CombineOptions.DEFAULT)))
                .isLessThan(NOISE));
  }

  @Test
  void groupedCallsAllocateNothing() {
    OneRank.run(
        rank ->
            assertThat(
                    allocated(
                        () ->
                            pair(
                                rank,
                                Layout.EXPERT_MAJOR,
                                DispatchOptions.DEFAULT,
                                CombineOptions.DEFAULT)))
                .isLessThan(NOISE));
  }

  @Test
  void callsOnAStreamAllocateTheirEventsOnly() {
    OneRank.run(
        rank -> {
          DispatchOptions dispatching = rank.dispatching();
          CombineOptions combining = rank.combining();
          assertThat(allocated(() -> pair(rank, Layout.FLAT, dispatching, combining)))
              .isLessThan(MEASURED * 2L * EVENT_BYTES + NOISE);
        });
  }

  @Test
  void warmUpRunsAllOperations() {
    ThreadRanks.run(
        1,
        group -> {
          try (var buffer = OneRank.openBuffer(group)) {
            buffer.warmUp();
            var counted = buffer.statistics();
            assertThat(counted.dispatches()).isPositive();
            assertThat(counted.combines()).isPositive();
            assertThat(counted.lowLatencyDispatches()).isPositive();
            assertThat(counted.lowLatencyCombines()).isPositive();
          }
        });
    assertThat(FakeKernels.launches().stream().map(FakeKernels.Launch::kernel))
        .contains(FakeKernels.DISPATCH, FakeKernels.EXPERT_DISPATCH, FakeKernels.COMBINE + "_bf16");
  }

  private static void pair(
      OneRank rank, Layout layout, DispatchOptions dispatching, CombineOptions combining) {
    Dispatch dispatch = rank.buffer.dispatch(layout, rank.tokens, rank.batch.routing, dispatching);
    try (DispatchHandle handle = dispatch.handle()) {
      rank.buffer.combine(dispatch.x(), handle, combining);
    }
  }

  private static long allocated(Runnable call) {
    FakeDriver.record(false);
    for (int i = 0; i < WARM; i++) {
      call.run();
    }
    ThreadMXBean threads = (ThreadMXBean) ManagementFactory.getThreadMXBean();
    long before = threads.getCurrentThreadAllocatedBytes();
    for (int i = 0; i < MEASURED; i++) {
      call.run();
    }
    long bytes = threads.getCurrentThreadAllocatedBytes() - before;
    System.out.println("allocated by " + MEASURED + " pairs: " + bytes + " bytes");
    return bytes;
  }
}
