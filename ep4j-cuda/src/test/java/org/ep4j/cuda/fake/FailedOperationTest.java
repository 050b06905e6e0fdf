package org.ep4j.cuda.fake;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import java.lang.foreign.ValueLayout;
import java.time.Duration;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import org.assertj.core.api.ThrowableAssert.ThrowingCallable;
import org.ep4j.Dispatch;
import org.ep4j.DispatchHandle;
import org.ep4j.DispatchOptions;
import org.ep4j.LowLatencyDispatch;
import org.ep4j.config.Layout;
import org.ep4j.cuda.fake.FakeKernels.Launch;
import org.ep4j.cuda.struct.Control;
import org.ep4j.error.ErrorCode;
import org.ep4j.error.PeerTimeoutException;
import org.ep4j.execution.Event;
import org.ep4j.execution.Execution;
import org.ep4j.memory.NativeMemory;
import org.ep4j.tensor.DType;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.EnumSource;
import org.junit.jupiter.params.provider.ValueSource;

/** Operations whose launch fails, and the end of operations that the GPU has not ended yet. */
@OnFakeDriver
class FailedOperationTest {
  private static final int LAUNCH_FAILED = 719;

  /** Shorter than a wait for an operation that was never launched. */
  private static final int SECONDS = 10;

  @ParameterizedTest
  @EnumSource(
      value = Layout.class,
      names = {"FLAT", "EXPERT_MAJOR"})
  @Timeout(SECONDS)
  void afterAFailedLaunchTheNextDispatchWorks(Layout layout) {
    OneRank.run(
        rank -> {
          failLaunch();
          assertLaunchFails(() -> rank.dispatch(layout));
          assertThat(rank.dispatch(layout).rows()).isEqualTo(OneRank.TOKENS);
        });
  }

  @ParameterizedTest
  @ValueSource(booleans = {false, true})
  @Timeout(SECONDS)
  void afterAFailedLaunchTheBufferCanBeReset(boolean lowLatency) {
    OneRank.run(
        rank -> {
          failLaunch();
          assertLaunchFails(lowLatency ? () -> lowLatency(rank, false) : () -> flat(rank));
          rank.buffer.reset();
          assertThat(flat(rank).rows()).isEqualTo(OneRank.TOKENS);
          assertThat(lowLatency(rank, false).x().size(0)).isPositive();
        });
  }

  @Test
  @Timeout(SECONDS)
  void afterAFailedCombineTheHandleIsUsable() {
    OneRank.run(
        rank -> {
          Dispatch dispatch = flat(rank);
          try (DispatchHandle handle = dispatch.handle()) {
            var y = dispatch.combineInput(DType.BF16);
            failLaunch();
            assertLaunchFails(() -> rank.buffer.combine(y, handle, rank.combining()));
            assertThat(rank.buffer.combine(y, handle, rank.combining()).x().size(0))
                .isEqualTo(OneRank.TOKENS);
          }
        });
  }

  @ParameterizedTest
  @ValueSource(booleans = {false, true})
  @Timeout(SECONDS)
  void afterAFailedLaunchTheNextLowLatencyDispatchWorks(boolean hook) {
    OneRank.run(
        rank -> {
          failLaunch();
          assertLaunchFails(() -> lowLatency(rank, hook));
          LowLatencyDispatch next = lowLatency(rank, hook);
          if (hook) {
            next.hook().receive();
          }
          assertThat(next.x().size(0)).isPositive();
        });
  }

  @Test
  @Timeout(SECONDS)
  void afterAFailedReceiveTheHookCanBeCalledAgain() {
    OneRank.run(
        rank -> {
          LowLatencyDispatch dispatch = lowLatency(rank, true);
          failLaunch();
          assertLaunchFails(dispatch.hook()::receive);
          dispatch.hook().receive();
          assertThat(dispatch.x().size(0)).isPositive();
          assertThat(rank.buffer.statistics().lowLatencyDispatches()).isEqualTo(1);
          assertThatThrownBy(dispatch.hook()::receive)
              .hasMessageStartingWith(ErrorCode.HOOK_CALLED_TWICE.id());
        });
  }

  @Test
  @Timeout(SECONDS)
  void aBufferWhoseLastLaunchFailedClosesAtOnce() {
    OneRank.run(
        rank -> {
          failLaunch();
          assertLaunchFails(() -> lowLatency(rank, false));
        });
  }

  @Test
  @Timeout(SECONDS)
  void anErrorThatAKernelReportsIsThrownOnceAndTheBufferStaysUsable() {
    OneRank.run(
        rank -> {
          FakeKernels.reportBadChoice();
          assertThatThrownBy(
                  () ->
                      rank.buffer.dispatch(
                          Layout.FLAT, rank.tokens, rank.batch.routing, DispatchOptions.DEFAULT))
              .hasMessageContaining("topkIdx");
          assertThat(rank.buffer.dispatchGrouped(rank.batch.x, rank.batch.routing).rows())
              .isEqualTo(OneRank.TOKENS);
        });
  }

  @Test
  @Timeout(SECONDS)
  void afterAReportedTimeoutOnlyAResetMakesTheBufferUsable() {
    OneRank.run(
        rank -> {
          FakeKernels.reportTimeout();
          Dispatch dispatch = flat(rank);
          for (int i = 0; i < 2; i++) {
            assertThatThrownBy(() -> dispatch.event().await())
                .isInstanceOf(PeerTimeoutException.class);
            assertThatThrownBy(() -> grouped(rank))
                .hasMessageStartingWith(ErrorCode.RESET_NEEDED.id());
          }
          rank.buffer.reset();
          assertThat(grouped(rank).rows()).isEqualTo(OneRank.TOKENS);
        });
  }

  /** The driver fails before anything of the buffer changes. */
  @Test
  @Timeout(SECONDS)
  void afterAFailedResetKernelsWaitAgain() {
    OneRank.run(
        rank -> {
          flat(rank);
          failReset(rank);
          long abort = FakeKernels.launches().getLast().get("host_abort");
          assertThat(NativeMemory.getLongAcquire(abort)).isZero();
          rank.buffer.barrier();
        });
  }

  @Test
  @Timeout(SECONDS)
  void aFailedResetKeepsTheErrorOfAnOperation() {
    OneRank.run(
        rank -> {
          FakeKernels.reportTimeout();
          Dispatch dispatch = flat(rank);
          failReset(rank);
          assertThatThrownBy(() -> dispatch.event().await())
              .isInstanceOf(PeerTimeoutException.class);
        });
  }

  /** Kernels compare the tickets of graphs with this word. */
  @Test
  @Timeout(SECONDS)
  void aResetKeepsTheHighestTicketThatHasEnded() {
    OneRank.run(
        rank -> {
          flat(rank);
          lowLatency(rank, false);
          Launch last = FakeKernels.launches().getLast();
          rank.buffer.reset();
          long word = last.get("control") + Control.WORDS.ticket.offset();
          assertThat(last.get("receipt.ticket")).isEqualTo(2);
          assertThat(FakeCalls.bytes(word, Long.BYTES).get(ValueLayout.JAVA_LONG, 0)).isEqualTo(2);
        });
  }

  @Test
  @Timeout(SECONDS)
  void anEventIsDoneOnlyWhenTheKernelHasEnded() {
    OneRank.run(
        rank -> {
          flat(rank); // allocates
          rank.buffer.barrier();
          FakeDriver.hold();
          Event event =
              rank.buffer
                  .dispatch(
                      Layout.FLAT,
                      rank.tokens,
                      rank.batch.routing,
                      rank.dispatching().toBuilder().execution(Execution.ASYNCHRONOUS).build())
                  .event();
          assertThat(event.isDone()).isFalse();
          CountDownLatch waits = new CountDownLatch(1);
          Thread waiter =
              Thread.ofPlatform()
                  .start(
                      () -> {
                        waits.countDown();
                        event.await();
                      });
          assertThat(waits.await(SECONDS, TimeUnit.SECONDS)).isTrue();
          assertThat(waiter.isAlive()).isTrue();
          FakeDriver.release();
          assertThat(waiter.join(Duration.ofSeconds(SECONDS))).isTrue();
          assertThat(event.isDone()).isTrue();
        });
  }

  @Test
  @Timeout(SECONDS)
  void errorsOfALowLatencyOperationNameItWithItsNumber() {
    OneRank.run(
        rank -> {
          lowLatency(rank, false);
          Event second = lowLatency(rank, false).event();
          assertThat(second).hasToString("low-latency dispatch 2");
          assertThat(second.isDone()).isTrue();
        });
  }

  private static Dispatch flat(OneRank rank) {
    return rank.dispatch(Layout.FLAT);
  }

  private static Dispatch grouped(OneRank rank) {
    return rank.dispatch(Layout.EXPERT_MAJOR);
  }

  private static LowLatencyDispatch lowLatency(OneRank rank, boolean hook) {
    return rank.buffer.lowLatencyDispatch(
        rank.batch.x, rank.batch.routing, rank.lowLatencyDispatching(hook));
  }

  private static void failLaunch() {
    FakeDriver.failCall("cuLaunchKernelEx", 1, LAUNCH_FAILED);
  }

  private static void failReset(OneRank rank) {
    FakeDriver.failCall("cuMemcpyDtoH_v2", 1, LAUNCH_FAILED);
    assertThatThrownBy(rank.buffer::reset).hasMessageContaining("cuMemcpyDtoH");
  }

  private static void assertLaunchFails(ThrowingCallable operation) {
    assertThatThrownBy(operation)
        .hasMessageStartingWith(ErrorCode.CUDA_CALL_FAILED.id())
        .hasMessageContaining("cuLaunchKernelEx");
  }
}
