package org.ep4j.engine.host.buffer;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;
import static org.ep4j.engine.host.buffer.HighThroughputTest.config;
import static org.ep4j.engine.host.buffer.HighThroughputTest.constant;
import static org.ep4j.engine.host.buffer.HighThroughputTest.routing;
import static org.ep4j.engine.host.buffer.HighThroughputTest.rows;
import static org.ep4j.engine.host.buffer.Tensors.heads;

import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.time.Duration;
import java.util.concurrent.locks.LockSupport;
import org.ep4j.Combine;
import org.ep4j.CombineOptions;
import org.ep4j.Dispatch;
import org.ep4j.DispatchHandle;
import org.ep4j.DispatchOptions;
import org.ep4j.ExpertBuffer;
import org.ep4j.GroupedDispatch;
import org.ep4j.Tokens;
import org.ep4j.config.BufferConfig;
import org.ep4j.error.Ep4jException;
import org.ep4j.error.ErrorCode;
import org.ep4j.error.InvalidArgumentException;
import org.ep4j.execution.Event;
import org.ep4j.execution.Execution;
import org.ep4j.group.ThreadRanks;
import org.ep4j.routing.Routing;
import org.ep4j.tensor.DType;
import org.ep4j.tensor.Tensor;
import org.junit.jupiter.api.Test;

/** Operations that return before they are done. */
class AsynchronousOperationsTest {
  private static final DispatchOptions ASYNC_DISPATCH =
      DispatchOptions.builder().execution(Execution.ASYNCHRONOUS).build();
  private static final CombineOptions ASYNC_COMBINE =
      CombineOptions.builder().execution(Execution.ASYNCHRONOUS).build();

  /** The operation reads memory that its caller may free once the buffer is closed. */
  @Test
  void closeWaitsForTheOperationAlsoWhereItIsInterrupted() {
    ThreadRanks.run(
        1,
        group -> {
          Signal previous = new Signal();
          ExpertBuffer buffer = ExpertBuffer.open(group, config().build());
          DispatchOptions late =
              DispatchOptions.builder().execution(Execution.ASYNCHRONOUS.after(previous)).build();
          Dispatch d =
              buffer.dispatch(
                  Tokens.of(constant(1, 1)), Routing.of(Tensor.of(new long[] {0, 1}, 1, 2)), late);
          Event event = d.event();
          Thread.ofPlatform()
              .start(
                  () -> {
                    LockSupport.parkNanos(Duration.ofMillis(100).toNanos());
                    previous.happen();
                  });
          Thread.currentThread().interrupt();
          buffer.close();
          assertThat(Thread.interrupted()).isTrue();
          assertThat(event.isDone()).isTrue();
          assertThatThrownBy(buffer::parallelism)
              .hasMessageStartingWith(ErrorCode.BUFFER_CLOSED.id());
        });
  }

  @Test
  void accessorsWaitForTheOperation() {
    ThreadRanks.run(
        2,
        group -> {
          try (ExpertBuffer buffer = ExpertBuffer.open(group, config().build())) {
            Dispatch d =
                buffer.dispatch(
                    Tokens.of(rows(group.rank())), routing(group.rank()), ASYNC_DISPATCH);
            assertThat(heads(d.x()))
                .containsExactly(
                    group.rank() == 0 ? new float[] {1, 2, 11} : new float[] {1, 3, 12});
            assertThat(d.event().isDone()).isTrue();
            DispatchHandle handle = d.handle();
            Combine c = buffer.combine(d.x(), handle, ASYNC_COMBINE);
            handle.close();
            assertThat(heads(c.x()))
                .containsExactly(group.rank() == 0 ? new float[] {2, 2, 3} : new float[] {11, 12});
          }
        });
  }

  @Test
  void operationReturnsBeforeItsPreviousEvent() {
    ThreadRanks.run(
        2,
        group -> {
          try (ExpertBuffer buffer = ExpertBuffer.open(group, config().build())) {
            Signal ready = new Signal();
            Tensor x = constant(0, rows(group.rank()).size(0) == 3 ? 3 : 2);
            DispatchOptions after =
                DispatchOptions.builder().execution(Execution.ASYNCHRONOUS.after(ready)).build();
            Dispatch d = buffer.dispatch(Tokens.of(x), routing(group.rank()), after);
            assertThat(d.event().isDone()).isFalse();
            assertThat(d.event().await(Duration.ofMillis(1))).isFalse();
            MemorySegment.copy(rows(group.rank()).segment(), 0, x.segment(), 0, x.byteSize());
            ready.happen();
            d.event().await();
            assertThat(heads(d.x())[0]).isEqualTo(1);
          }
        });
  }

  @Test
  void operationsRunInTheOrderOfTheCalls() {
    ThreadRanks.run(
        2,
        group -> {
          try (ExpertBuffer buffer = ExpertBuffer.open(group, config().build())) {
            DispatchHandle handle =
                buffer.dispatch(rows(group.rank()), routing(group.rank())).handle();
            Event last = Event.completed();
            for (int i = 0; i < 20; i++) {
              Tensor x = constant(i, handle.tokens());
              last =
                  buffer.dispatch(Tokens.of(x), handle, Execution.ASYNCHRONOUS.after(last)).event();
            }
            // Synchronous: runs after all queued operations.
            Combine c = buffer.combine(constant(1, (int) handle.rows()), handle);
            assertThat(last.isDone()).isTrue();
            assertThat(heads(c.x())[0]).isEqualTo(group.rank() == 0 ? 2 : 1);
          }
        });
  }

  @Test
  void errorsAreReportedByTheEventAndSpareTheBuffer() {
    ThreadRanks.run(
        1,
        group -> {
          try (ExpertBuffer buffer = ExpertBuffer.open(group, config().build())) {
            Routing wrong = Routing.of(Tensor.of(new long[] {0, 9}, 1, 2));
            Dispatch d = buffer.dispatch(Tokens.of(constant(1, 1)), wrong, ASYNC_DISPATCH);
            Event event = d.event();
            for (int i = 0; i < 2; i++) {
              assertThatThrownBy(event::await)
                  .isInstanceOf(InvalidArgumentException.class)
                  .hasMessageStartingWith(ErrorCode.NO_SUCH_EXPERT.message("topkIdx[0, 1] = 9"));
            }
            assertThatThrownBy(d::x).isInstanceOf(InvalidArgumentException.class);
            Routing right = Routing.of(Tensor.of(new long[] {0, 1}, 1, 2));
            assertThat(buffer.dispatch(constant(1, 1), right).rows()).isEqualTo(1);
          }
        });
  }

  /** The operation runs on another thread. */
  @Test
  void expertsThatOrderTheSumsMayLieInMemoryOfTheCallingThread() {
    ThreadRanks.run(
        1,
        group -> {
          try (ExpertBuffer buffer = ExpertBuffer.open(group, config().build());
              Arena arena = Arena.ofConfined()) {
            MemorySegment logical = arena.allocate(2 * Long.BYTES);
            logical.set(ValueLayout.JAVA_LONG, 0, 1);
            Routing routing =
                new Routing(
                    Tensor.of(new long[] {0, 1}, 1, 2),
                    Tensor.of(new float[] {1, 2}, 1, 2),
                    Tensor.of(logical, DType.INT64, 1, 2));
            GroupedDispatch d =
                buffer.dispatchGrouped(Tokens.of(constant(1, 1)), routing, ASYNC_DISPATCH);
            d.event().await();
            assertThat(d.rows()).isEqualTo(2);
          }
        });
  }

  @Test
  void shapesAreRefusedInTheCall() {
    ThreadRanks.run(
        1,
        group -> {
          try (ExpertBuffer buffer = ExpertBuffer.open(group, config().build())) {
            Routing two = Routing.of(Tensor.of(new long[] {0, 1, 2, 3}, 2, 2));
            assertThatThrownBy(
                    () -> buffer.dispatch(Tokens.of(constant(1, 1)), two, ASYNC_DISPATCH))
                .isInstanceOf(InvalidArgumentException.class)
                .hasMessageStartingWith(ErrorCode.TOKENS_DIFFER.id());
          }
        });
  }

  @Test
  void previousEventThatNeverHappensEndsTheOperation() {
    ThreadRanks.run(
        1,
        group -> {
          BufferConfig shortTimeout = config().timeout(Duration.ofMillis(50)).build();
          try (ExpertBuffer buffer = ExpertBuffer.open(group, shortTimeout)) {
            DispatchOptions never =
                DispatchOptions.builder()
                    .execution(Execution.SYNCHRONOUS.after(new Signal()))
                    .build();
            Routing routing = Routing.of(Tensor.of(new long[] {0, 1}, 1, 2));
            assertThatThrownBy(() -> buffer.dispatch(Tokens.of(constant(1, 1)), routing, never))
                .isInstanceOf(Ep4jException.class)
                .hasMessageStartingWith(ErrorCode.PREVIOUS_EVENT_LATE.id())
                .hasMessageContaining("nothing was sent");
            assertThat(buffer.dispatch(constant(1, 1), routing).rows()).isEqualTo(1);
          }
        });
  }

  @Test
  void closeWaitsForWhatIsQueued() {
    ThreadRanks.run(
        2,
        group -> {
          Event event;
          try (ExpertBuffer buffer = ExpertBuffer.open(group, config().build())) {
            event =
                buffer
                    .dispatch(Tokens.of(rows(group.rank())), routing(group.rank()), ASYNC_DISPATCH)
                    .event();
          }
          assertThat(event.isDone()).isTrue();
          event.await();
        });
  }
}
