package org.ep4j.engine.host.buffer;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;
import static org.assertj.core.api.Assertions.catchThrowableOfType;
import static org.ep4j.engine.host.buffer.HighThroughputTest.config;
import static org.ep4j.engine.host.buffer.Tensors.heads;

import java.time.Duration;
import java.util.Arrays;
import java.util.concurrent.atomic.AtomicLong;
import java.util.concurrent.locks.LockSupport;
import org.ep4j.Dispatch;
import org.ep4j.DispatchHandle;
import org.ep4j.DispatchOptions;
import org.ep4j.ExpertBuffer;
import org.ep4j.LowLatencyCombineOptions;
import org.ep4j.LowLatencyDispatch;
import org.ep4j.LowLatencyDispatchOptions;
import org.ep4j.Tokens;
import org.ep4j.config.BufferConfig;
import org.ep4j.config.LowLatencyConfig;
import org.ep4j.error.Ep4jException;
import org.ep4j.error.ErrorCode;
import org.ep4j.error.PeerTimeoutException;
import org.ep4j.execution.Execution;
import org.ep4j.group.Group;
import org.ep4j.group.InterruptedBarrier;
import org.ep4j.group.ThreadRanks;
import org.ep4j.routing.ExpertPlacement;
import org.ep4j.routing.Routing;
import org.ep4j.tensor.RowFormat;
import org.ep4j.tensor.Tensor;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/**
 * The thread of rank 0 is interrupted while it waits for rank 1. It returns long before its
 * timeout, and the other ranks get the reason.
 */
class InterruptedOperationsTest {
  private static final int RANKS = 2;
  private static final int WIDE = 128;

  /** Longer than a test may take: no rank may wait that long. */
  private static final Duration LONG = Duration.ofMinutes(10);

  private static final Duration LIMIT = Duration.ofMinutes(1);
  private static final Duration SECOND = Duration.ofSeconds(1);
  private static final Duration BEFORE_THE_INTERRUPT = Duration.ofMillis(50);

  /** One token to an expert of each rank. */
  private static final Routing EVERYWHERE = Routing.of(Tensor.of(new long[] {0, 2}, 1, 2));

  private static final LowLatencyDispatchOptions BF16 =
      LowLatencyDispatchOptions.builder().format(RowFormat.BF16).build();

  private static final DispatchOptions ASYNCHRONOUS =
      DispatchOptions.builder().execution(Execution.ASYNCHRONOUS).build();

  private static final BufferConfig PLAIN = config().hidden(WIDE).timeout(LONG).build();

  /** An operation that waits for the peer; the operations before it are done. */
  private interface Operation {
    void run();
  }

  /** Runs what goes before the operation, with all ranks; returns the operation. */
  private interface Preparation {
    Operation prepare(ExpertBuffer buffer);
  }

  /** In one node, and across nodes over TCP. */
  @ParameterizedTest
  @ValueSource(ints = {0, 1})
  void dispatchEnds(int ranksPerNode) {
    check(ranksPerNode, buffer -> () -> buffer.dispatch(rows(1), EVERYWHERE));
  }

  @ParameterizedTest
  @ValueSource(ints = {0, 1})
  void combineEnds(int ranksPerNode) {
    check(
        ranksPerNode,
        buffer -> {
          Dispatch dispatch = buffer.dispatch(rows(1), EVERYWHERE);
          DispatchHandle handle = dispatch.handle();
          return () -> buffer.combine(dispatch.x(), handle);
        });
  }

  @ParameterizedTest
  @ValueSource(ints = {0, 1})
  void barrierEnds(int ranksPerNode) {
    check(ranksPerNode, buffer -> buffer::barrier);
  }

  @ParameterizedTest
  @ValueSource(ints = {0, 1})
  void lowLatencyDispatchEnds(int ranksPerNode) {
    check(ranksPerNode, buffer -> () -> buffer.lowLatencyDispatch(rows(1), EVERYWHERE, BF16));
  }

  @ParameterizedTest
  @ValueSource(ints = {0, 1})
  void lowLatencyCombineEnds(int ranksPerNode) {
    check(
        ranksPerNode,
        buffer -> {
          LowLatencyDispatch dispatch = buffer.lowLatencyDispatch(rows(1), EVERYWHERE, BF16);
          Tensor y = dispatch.x();
          return () ->
              buffer.lowLatencyCombine(
                  y, weighted(), dispatch.handle(), LowLatencyCombineOptions.DEFAULT);
        });
  }

  private static void check(int ranksPerNode, Preparation preparation) {
    BufferConfig.Builder shape =
        config()
            .hidden(WIDE)
            .placement(ExpertPlacement.blocks(4, RANKS))
            .lowLatency(1)
            .timeout(LONG);
    BufferConfig config =
        ranksPerNode == 0 ? shape.build() : shape.ranksPerNode(ranksPerNode).wire("tcp").build();
    ThreadRanks.run(
        RANKS,
        LIMIT,
        group -> {
          try (ExpertBuffer buffer = ExpertBuffer.open(group, config)) {
            Operation operation = preparation.prepare(buffer);
            if (group.rank() == 0) {
              Ep4jException error = interrupted(operation);
              assertThat(error.errorCode()).isEqualTo(ErrorCode.OPERATION_INTERRUPTED);
              assertThat(error).hasMessageContaining("rank 1");
              assertRefused(buffer);
              group.barrier(LIMIT);
            } else {
              group.barrier(LIMIT);
              PeerTimeoutException error = learned(buffer, operation);
              assertThat(error.peer()).as(error.getMessage()).isZero();
              assertThat(error.peerDead()).isFalse();
              assertThat(error).hasMessageContaining("the thread was interrupted");
            }
            buffer.reset();
            assertWorks(group, buffer);
          }
        });
  }

  /**
   * What the peer learns. Rank 0 had sent its rows of a low-latency operation: the peer has them,
   * and learns the reason from one of the next two.
   */
  private static PeerTimeoutException learned(ExpertBuffer buffer, Operation operation) {
    PeerTimeoutException error = catchThrowableOfType(PeerTimeoutException.class, operation::run);
    for (int i = 0; i < 2 && error == null; i++) {
      error =
          catchThrowableOfType(
              PeerTimeoutException.class,
              () -> buffer.lowLatencyDispatch(rows(1), EVERYWHERE, BF16));
    }
    return error;
  }

  private static void assertRefused(ExpertBuffer buffer) {
    IllegalStateException refused =
        catchThrowableOfType(IllegalStateException.class, buffer::barrier);
    assertThat(refused)
        .hasMessageStartingWith(ErrorCode.RESET_NEEDED.id())
        .hasMessageContaining("interrupted");
  }

  /** Results of both kinds are right. */
  private static void assertWorks(Group group, ExpertBuffer buffer) {
    Dispatch dispatch = buffer.dispatch(rows(group.rank() + 1), EVERYWHERE);
    assertThat(heads(dispatch.x())).containsExactly(1, 2);
    try (DispatchHandle handle = dispatch.handle()) {
      float sum = RANKS * (group.rank() + 1);
      assertThat(heads(buffer.combine(dispatch.x(), handle).x())).containsExactly(sum);
    }
    LowLatencyDispatch received =
        buffer.lowLatencyDispatch(rows(group.rank() + 1), EVERYWHERE, BF16);
    assertThat(received.counts().getInt(0)).isEqualTo(RANKS);
    for (int rank = 0; rank < RANKS; rank++) {
      assertThat(buffer.isMasked(rank)).isFalse();
    }
  }

  /** Runs an operation that waits, interrupts its thread, and returns its error. */
  private static Ep4jException interrupted(Operation operation) {
    Thread waiter = Thread.currentThread();
    AtomicLong interruptedAt = new AtomicLong();
    Thread.ofVirtual()
        .start(
            () -> {
              LockSupport.parkNanos(BEFORE_THE_INTERRUPT.toNanos());
              interruptedAt.set(System.nanoTime());
              waiter.interrupt();
            });
    Ep4jException error = catchThrowableOfType(Ep4jException.class, operation::run);
    Duration taken = Duration.ofNanos(System.nanoTime() - interruptedAt.get());
    assertThat(Thread.interrupted()).as("the flag stays set").isTrue();
    assertThat(taken).isLessThan(SECOND);
    return error;
  }

  @Test
  void interruptMasksNoRank() {
    BufferConfig config =
        config()
            .hidden(WIDE)
            .lowLatency(LowLatencyConfig.builder().maxTokens(1).masking(true).build())
            .timeout(LONG)
            .build();
    ThreadRanks.run(
        RANKS,
        LIMIT,
        group -> {
          try (ExpertBuffer buffer = ExpertBuffer.open(group, config)) {
            if (group.rank() == 0) {
              Ep4jException error =
                  interrupted(() -> buffer.lowLatencyDispatch(rows(1), EVERYWHERE, BF16));
              assertThat(error.errorCode()).isEqualTo(ErrorCode.OPERATION_INTERRUPTED);
              assertThat(buffer.isMasked(1)).isFalse();
            }
            group.barrier(LIMIT);
            buffer.reset();
            assertWorks(group, buffer);
          }
        });
  }

  @Test
  void interruptedResetMayBeRepeated() {
    BufferConfig config = config().hidden(WIDE).lowLatency(1).timeout(LONG).build();
    ThreadRanks.run(
        RANKS,
        LIMIT,
        group -> {
          try (ExpertBuffer buffer = ExpertBuffer.open(group, config)) {
            if (group.rank() == 0) {
              Ep4jException error = interrupted(buffer::reset);
              assertThat(error.errorCode()).isEqualTo(ErrorCode.GROUP_INTERRUPTED);
            }
            group.barrier(LIMIT);
            buffer.reset();
            assertWorks(group, buffer);
          }
        });
  }

  /** The others have completed the reset, and wait for rank 0 in their next operation. */
  @Test
  void interruptOfTheLastStepOfAResetIsTold() {
    InterruptedBarrier barrier = new InterruptedBarrier();
    ThreadRanks.run(
        RANKS,
        LIMIT,
        group -> {
          try (ExpertBuffer buffer = ExpertBuffer.open(barrier.of(group), PLAIN)) {
            if (group.rank() == 0) {
              assertThat(catchThrowableOfType(Ep4jException.class, buffer::reset).errorCode())
                  .isEqualTo(ErrorCode.GROUP_INTERRUPTED);
              assertThat(Thread.interrupted()).isTrue();
              assertRefused(buffer);
            } else {
              buffer.reset();
              PeerTimeoutException error =
                  catchThrowableOfType(
                      PeerTimeoutException.class, () -> buffer.dispatch(rows(1), EVERYWHERE));
              assertThat(error).hasMessageContaining("rank 0 has aborted (not all ranks have");
            }
            buffer.reset();
            assertThat(heads(buffer.dispatch(rows(group.rank() + 1), EVERYWHERE).x()))
                .containsExactly(1, 2);
          }
        });
  }

  @Test
  void interruptedOpeningEndsOnAllRanks() {
    BufferConfig config = config().timeout(LONG).build();
    ThreadRanks.run(
        RANKS,
        LIMIT,
        group -> {
          if (group.rank() == 0) {
            Ep4jException error = interrupted(() -> ExpertBuffer.open(group, config));
            assertThat(error.errorCode()).isEqualTo(ErrorCode.GROUP_INTERRUPTED);
          } else {
            LockSupport.parkNanos(BEFORE_THE_INTERRUPT.multipliedBy(4).toNanos());
            assertThatThrownBy(() -> ExpertBuffer.open(group, config))
                .isInstanceOf(Ep4jException.class)
                .hasMessageContaining("rank 0");
          }
        });
  }

  /** The operation runs on another thread, and continues. */
  @Test
  void interruptedWaitForAnEventMayBeRepeated() {
    ThreadRanks.run(
        RANKS,
        LIMIT,
        group -> {
          try (ExpertBuffer buffer = ExpertBuffer.open(group, PLAIN)) {
            if (group.rank() != 0) {
              group.barrier(LIMIT);
            }
            Dispatch dispatch = buffer.dispatch(Tokens.of(rows(1)), EVERYWHERE, ASYNCHRONOUS);
            if (group.rank() == 0) {
              Ep4jException error = interrupted(() -> dispatch.event().await());
              assertThat(error.errorCode()).isEqualTo(ErrorCode.EVENT_WAIT_INTERRUPTED);
              group.barrier(LIMIT);
            }
            dispatch.event().await();
            assertThat(dispatch.rows()).isEqualTo(RANKS);
          }
        });
  }

  /** A queued operation would wait for its whole timeout. */
  @Test
  void closeOfAnInterruptedThreadEndsQueuedOperations() {
    ThreadRanks.run(
        RANKS,
        LIMIT,
        group -> {
          ExpertBuffer buffer = ExpertBuffer.open(group, PLAIN);
          if (group.rank() == 0) {
            buffer.dispatch(Tokens.of(rows(1)), EVERYWHERE, ASYNCHRONOUS);
            Dispatch last = buffer.dispatch(Tokens.of(rows(1)), EVERYWHERE, ASYNCHRONOUS);
            long begin = System.nanoTime();
            Thread.currentThread().interrupt();
            buffer.close();
            assertThat(Thread.interrupted()).isTrue();
            assertThat(Duration.ofNanos(System.nanoTime() - begin)).isLessThan(SECOND);
            assertThat(last.event().isDone()).isTrue();
          }
          group.barrier(LIMIT);
          buffer.close();
        });
  }

  private static Routing weighted() {
    return new Routing(EVERYWHERE.topkIdx(), Tensor.of(new float[] {1, 1}, 1, 2));
  }

  private static Tensor rows(float value) {
    short[] row = new short[WIDE];
    Arrays.fill(row, Tensors.bf16(value));
    return Tensor.ofBf16(row, 1, WIDE);
  }
}
