package org.ep4j.engine.host.lowlatency;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;
import static org.ep4j.engine.host.buffer.Tensors.bf16;
import static org.ep4j.engine.host.lowlatency.LowLatencyCase.BF16;
import static org.ep4j.engine.host.lowlatency.LowLatencyCase.HIDDEN;
import static org.ep4j.engine.host.lowlatency.LowLatencyCase.MAX_TOKENS;
import static org.ep4j.engine.host.lowlatency.LowLatencyCase.config;
import static org.ep4j.engine.host.lowlatency.LowLatencyCase.dispatch;
import static org.ep4j.engine.host.lowlatency.LowLatencyCase.routing;
import static org.ep4j.engine.host.lowlatency.LowLatencyCase.rows;

import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.time.Duration;
import java.util.Arrays;
import java.util.concurrent.locks.LockSupport;
import org.ep4j.ExpertBuffer;
import org.ep4j.LowLatencyCombine;
import org.ep4j.LowLatencyCombineOptions;
import org.ep4j.LowLatencyDispatch;
import org.ep4j.LowLatencyDispatchOptions;
import org.ep4j.config.BufferConfig;
import org.ep4j.engine.host.buffer.Signal;
import org.ep4j.engine.host.buffer.Tensors;
import org.ep4j.error.Ep4jException;
import org.ep4j.error.ErrorCode;
import org.ep4j.error.PeerTimeoutException;
import org.ep4j.execution.Execution;
import org.ep4j.group.ThreadRanks;
import org.ep4j.routing.Routing;
import org.ep4j.tensor.DType;
import org.ep4j.tensor.Tensor;
import org.junit.jupiter.api.Test;

/** Low-latency operations that wait for an event, or whose event reports an error. */
class LowLatencyEventsTest {
  /** Routing of a token, in memory of one thread, which something else writes. */
  private static final class Written {
    final MemorySegment ids;
    final MemorySegment weights;
    final Routing routing;

    Written(Arena arena) {
      ids = arena.allocate(2 * Long.BYTES);
      weights = arena.allocate(2 * Float.BYTES);
      // No expert, until it is written.
      ids.fill((byte) 0x7f);
      routing =
          new Routing(Tensor.of(ids, DType.INT64, 1, 2), Tensor.of(weights, DType.FP32, 1, 2));
    }

    void write(long expert) {
      ids.set(ValueLayout.JAVA_LONG, 0, expert);
      ids.set(ValueLayout.JAVA_LONG, 8, -1);
      weights.set(ValueLayout.JAVA_FLOAT, 0, 3);
    }
  }

  private interface Body {
    void run(ExpertBuffer buffer);
  }

  private static void alone(BufferConfig config, Body body) {
    ThreadRanks.run(
        1,
        group -> {
          try (ExpertBuffer buffer = ExpertBuffer.open(group, config)) {
            body.run(buffer);
          }
        });
  }

  private static LowLatencyDispatchOptions dispatchOn(Execution execution) {
    return BF16.toBuilder().execution(execution).build();
  }

  private static LowLatencyCombineOptions combineOn(Execution execution) {
    return LowLatencyCombineOptions.builder().execution(execution).build();
  }

  private static Tensor constant(int experts, int rows, float value) {
    short[] values = new short[experts * rows * HIDDEN];
    Arrays.fill(values, bf16(value));
    return experts == 1
        ? Tensor.ofBf16(values, rows, HIDDEN)
        : Tensor.ofBf16(values, experts, rows, HIDDEN);
  }

  @Test
  void synchronousOperationsReadTheRoutingAfterTheirEvent() {
    alone(
        config().build(),
        buffer -> {
          try (Arena arena = Arena.ofShared()) {
            Written written = new Written(arena);
            LowLatencyDispatch d =
                buffer.lowLatencyDispatch(
                    constant(1, 1, 1), written.routing, dispatchOn(after(written)));
            assertThat(Tensors.ints(d.counts())).containsExactly(0, 0, 1, 0);

            Tensor y = constant(4, MAX_TOKENS, 2);
            written.weights.fill((byte) 0);
            LowLatencyCombine c =
                buffer.lowLatencyCombine(y, written.routing, d.handle(), combineOn(after(written)));
            assertThat(Tensors.heads(c.x())).containsExactly(6);
          }
        });
  }

  /** A synchronous execution after an event, before which another thread writes the routing. */
  private static Execution after(Written written) {
    Signal signal = new Signal();
    Thread.ofPlatform()
        .start(
            () -> {
              LockSupport.parkNanos(Duration.ofMillis(50).toNanos());
              written.write(2);
              signal.happen();
            });
    return Execution.SYNCHRONOUS.after(signal);
  }

  @Test
  void asynchronousOperationsReadTheRoutingAfterTheirEvent() {
    alone(
        config().build(),
        buffer -> {
          // Confined: the operations run on another thread.
          try (Arena arena = Arena.ofConfined()) {
            Written written = new Written(arena);
            Signal signal = new Signal();
            LowLatencyDispatch d =
                buffer.lowLatencyDispatch(
                    constant(1, 1, 1),
                    written.routing,
                    dispatchOn(Execution.ASYNCHRONOUS.after(signal)));
            // Its own event is there, but the dispatch whose routing it compares is not.
            LowLatencyCombine c =
                buffer.lowLatencyCombine(
                    constant(4, MAX_TOKENS, 2),
                    written.routing,
                    d.handle(),
                    combineOn(Execution.ASYNCHRONOUS));
            written.write(2);
            signal.happen();
            c.event().await();
            assertThat(Tensors.ints(d.counts())).containsExactly(0, 0, 1, 0);
            assertThat(Tensors.heads(c.x())).containsExactly(6);
          }
        });
  }

  @Test
  void anEventThatNeverHappensSparesTheBuffer() {
    alone(
        config().timeout(Duration.ofMillis(50)).build(),
        buffer -> {
          Execution never = Execution.SYNCHRONOUS.after(new Signal());
          Routing one = Routing.of(new long[] {1, -1}, new float[2], 2);
          assertThatThrownBy(
                  () -> buffer.lowLatencyDispatch(constant(1, 1, 1), one, dispatchOn(never)))
              .isInstanceOf(Ep4jException.class)
              .hasMessageStartingWith(ErrorCode.PREVIOUS_EVENT_LATE.id());
          LowLatencyDispatch d = buffer.lowLatencyDispatch(constant(1, 1, 1), one, BF16);
          assertThatThrownBy(
                  () ->
                      buffer.lowLatencyCombine(
                          constant(4, MAX_TOKENS, 2), one, d.handle(), combineOn(never)))
              .isInstanceOf(Ep4jException.class)
              .hasMessageStartingWith(ErrorCode.PREVIOUS_EVENT_LATE.id());
          LowLatencyCombine c =
              buffer.lowLatencyCombine(
                  constant(4, MAX_TOKENS, 2), one, d.handle(), LowLatencyCombineOptions.DEFAULT);
          assertThat(Tensors.heads(c.x())).containsExactly(0);
        });
  }

  /** The error of an asynchronous operation is thrown at each wait for its event. */
  @Test
  void aResetEndsTheErrorOfAnAsynchronousOperation() {
    LowLatencyCase.onBothRanks(
        config().timeout(Duration.ofMillis(300)).build(),
        (buffer, rank) -> {
          LowLatencyDispatch before = dispatch(buffer);
          assertThat(before.counts()).isNotNull();
          if (rank == 0) {
            LowLatencyDispatch failed =
                buffer.lowLatencyDispatch(
                    rows(rank), routing(rank), dispatchOn(Execution.ASYNCHRONOUS));
            assertThatThrownBy(() -> failed.event().await())
                .isInstanceOf(PeerTimeoutException.class);
          }
          buffer.reset();
          for (int i = 0; i < 4; i++) {
            LowLatencyDispatch d = dispatch(buffer);
            LowLatencyCase.assertSums(rank, LowLatencyCase.combine(buffer, d));
          }
        });
  }
}
