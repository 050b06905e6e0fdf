package org.ep4j.cuda.fake;

import static org.assertj.core.api.Assertions.assertThat;

import com.sun.management.ThreadMXBean;
import java.lang.management.ManagementFactory;
import org.ep4j.CombineOptions;
import org.ep4j.Dispatch;
import org.ep4j.DispatchHandle;
import org.ep4j.DispatchOptions;
import org.ep4j.LowLatencyCombineOptions;
import org.ep4j.LowLatencyDispatch;
import org.ep4j.LowLatencyDispatchOptions;
import org.ep4j.config.Layout;
import org.ep4j.execution.Event;
import org.ep4j.group.ThreadRanks;
import org.jspecify.annotations.Nullable;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/** Warm calls allocate nothing on the heap of Java; an event is made for a caller that asks. */
@OnFakeDriver
class WarmCallsTest {
  private static final int WARM = 20_000;
  private static final int MEASURED = 5_000;

  /** Measuring itself, and code that the JVM compiles meanwhile. */
  private static final int NOISE = 10_000;

  private @Nullable Event last;

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
  void callsOnAStreamAllocateNothing() {
    OneRank.run(
        rank -> {
          DispatchOptions dispatching = rank.dispatching();
          CombineOptions combining = rank.combining();
          assertThat(allocated(() -> pair(rank, Layout.FLAT, dispatching, combining)))
              .isLessThan(NOISE);
        });
  }

  /** The measurement sees small objects. */
  @Test
  void anEventThatIsAskedForIsAllocated() {
    OneRank.run(
        rank -> {
          DispatchOptions dispatching = rank.dispatching();
          assertThat(
                  allocated(
                      () -> {
                        Dispatch dispatch =
                            rank.buffer.dispatch(
                                Layout.FLAT, rank.tokens, rank.batch.routing, dispatching);
                        last = dispatch.event();
                        dispatch.handle().close();
                      }))
              .isBetween(MEASURED * 16L, MEASURED * 64L);
        });
  }

  @ParameterizedTest
  @ValueSource(booleans = {false, true})
  void lowLatencyCallsAllocateNothing(boolean hook) {
    OneRank.run(
        rank -> {
          LowLatencyDispatchOptions dispatching = rank.lowLatencyDispatching(hook);
          LowLatencyCombineOptions combining = rank.lowLatencyCombining();
          assertThat(
                  allocated(
                      () -> {
                        LowLatencyDispatch dispatch =
                            rank.buffer.lowLatencyDispatch(
                                rank.batch.x, rank.batch.routing, dispatching);
                        if (hook) {
                          dispatch.hook().receive();
                        }
                        rank.buffer.lowLatencyCombine(
                            dispatch.x(), rank.batch.routing, dispatch.handle(), combining);
                      }))
              .isLessThan(NOISE);
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
        .contains(FakeKernels.DISPATCH, FakeKernels.EXPERT_DISPATCH, FakeKernels.COMBINE_BF16_PUSH);
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
