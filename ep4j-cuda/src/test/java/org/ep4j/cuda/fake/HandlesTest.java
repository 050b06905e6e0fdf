package org.ep4j.cuda.fake;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.Set;
import java.util.concurrent.Callable;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.stream.IntStream;
import org.ep4j.DispatchHandle;
import org.ep4j.DispatchOptions;
import org.ep4j.config.Layout;
import org.ep4j.cuda.driver.CudaGraph;
import org.ep4j.cuda.fake.FakeKernels.Launch;
import org.ep4j.error.ErrorCode;
import org.ep4j.execution.Event;
import org.ep4j.execution.Execution;
import org.junit.jupiter.api.Test;

/** Handles of dispatches: memory is reused, and never by two open handles. */
@OnFakeDriver
class HandlesTest {
  private static final int ROUNDS = 400;
  private static final int CLOSERS = 2;
  private static final int OPEN = 12;

  /** Closed handles that rest before one of them is used again. */
  private static final int REST = 4;

  private static final int SECONDS = 30;

  @Test
  void closedHandlesAreReused() {
    OneRank.run(
        rank -> {
          dispatchAndClose(rank, 10);
          long bytes = rank.buffer.statistics().privateBytes();
          dispatchAndClose(rank, ROUNDS);
          assertThat(rank.buffer.statistics().privateBytes()).isEqualTo(bytes);
        });
  }

  @Test
  void aClosedHandleIsRefusedAfterTheNextDispatches() {
    OneRank.run(
        rank -> {
          DispatchHandle closed = rank.dispatch(Layout.FLAT).handle();
          closed.close();
          for (int i = 0; i < 4; i++) {
            rank.dispatch(Layout.FLAT).handle().close();
            assertThatThrownBy(
                    () -> rank.buffer.dispatch(Layout.FLAT, rank.tokens, closed, rank.onStream))
                .hasMessageStartingWith(ErrorCode.HANDLE_CLOSED.id());
          }
        });
  }

  /** A lost handle would be replaced by another one, a handle in two hands used twice. */
  @Test
  void handlesThatThreadsCloseAtTheSameTimeAreReusedOnceEach() {
    OneRank.run(
        rank -> {
          Set<Long> all = new HashSet<>();
          AtomicInteger arrived = new AtomicInteger();
          try (var closers = Executors.newFixedThreadPool(CLOSERS)) {
            for (int round = 0; round < ROUNDS; round++) {
              List<DispatchHandle> handles = new ArrayList<>();
              Set<Long> open = new HashSet<>();
              for (int i = 0; i < OPEN; i++) {
                handles.add(rank.dispatch(Layout.FLAT).handle());
                assertThat(open.add(last().get("routes"))).isTrue();
                FakeDriver.forgetCalls();
              }
              all.addAll(open);
              int start = (round + 1) * CLOSERS;
              List<Callable<Integer>> tasks =
                  IntStream.range(0, CLOSERS)
                      .<Callable<Integer>>mapToObj(
                          closer ->
                              () -> {
                                int place = arrived.incrementAndGet();
                                while (arrived.get() < start) {
                                  Thread.yield();
                                }
                                for (int i = closer; i < OPEN; i += CLOSERS) {
                                  handles.get(i).close();
                                }
                                return place;
                              })
                      .toList();
              for (Future<Integer> each : closers.invokeAll(tasks, SECONDS, TimeUnit.SECONDS)) {
                assertThat(each.get()).isPositive();
              }
            }
          }
          assertThat(all).hasSizeLessThanOrEqualTo(OPEN + REST);
        });
  }

  @Test
  void theEndOfADispatchIsKnownAfterItsBufferHasClosed() {
    OneRank.run(
        rank -> {
          DispatchOptions exact =
              DispatchOptions.builder().execution(Execution.ASYNCHRONOUS).build();
          Event end =
              rank.buffer.dispatch(Layout.FLAT, rank.tokens, rank.batch.routing, exact).event();
          rank.buffer.close();
          assertThat(end.isDone()).isTrue();
          end.await();
        });
  }

  /** Callers keep the handles of the calls that they made before the capture. */
  @Test
  void aCaptureAllocatesTheHandlesThatItNeeds() {
    OneRank.run(
        rank -> {
          DispatchHandle kept = rank.dispatch(Layout.FLAT).handle();
          rank.stream.beginCapture();
          for (Layout layout : new Layout[] {Layout.FLAT, Layout.EXPERT_MAJOR}) {
            assertThat(rank.dispatch(layout).rows()).isEqualTo(OneRank.TOKENS);
          }
          try (CudaGraph graph = rank.stream.endCapture()) {
            assertThat(graph.nodes()).isPositive();
          }
          kept.close();
        });
  }

  private static void dispatchAndClose(OneRank rank, int times) {
    for (int i = 0; i < times; i++) {
      rank.dispatch(Layout.values()[i % 2]).handle().close();
    }
  }

  private static Launch last() {
    return FakeKernels.launches().getLast();
  }
}
