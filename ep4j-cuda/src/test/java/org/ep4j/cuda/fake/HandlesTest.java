package org.ep4j.cuda.fake;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.Executors;
import java.util.concurrent.Semaphore;
import java.util.concurrent.TimeUnit;
import org.ep4j.Dispatch;
import org.ep4j.DispatchHandle;
import org.ep4j.ErrorCode;
import org.ep4j.Layout;
import org.ep4j.cuda.driver.CudaGraph;
import org.ep4j.cuda.engine.launch.DispatchField;
import org.ep4j.cuda.fake.FakeKernels.Launch;
import org.junit.jupiter.api.Test;

/** Handles of dispatches: memory is reused, and never by two open handles. */
@OnFakeDriver
class HandlesTest {
  private static final int ROUNDS = 500;
  private static final int CLOSERS = 3;
  private static final int OPEN = 8;
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

  @Test
  void handlesThatOtherThreadsCloseAreReusedOnceEach() {
    OneRank.run(
        rank -> {
          // The memory of the open handles, by the address of their routes.
          Set<Long> open = ConcurrentHashMap.newKeySet();
          Semaphore places = new Semaphore(OPEN);
          Set<Long> all = new HashSet<>();
          try (var closers = Executors.newFixedThreadPool(CLOSERS)) {
            for (int i = 0; i < ROUNDS; i++) {
              assertThat(places.tryAcquire(SECONDS, TimeUnit.SECONDS)).isTrue();
              DispatchHandle handle = rank.dispatch(Layout.FLAT).handle();
              long routes = last().get(DispatchField.ROUTES);
              assertThat(open.add(routes)).as("memory of an open handle is used again").isTrue();
              all.add(routes);
              closers.execute(
                  () -> {
                    open.remove(routes);
                    handle.close();
                    places.release();
                  });
              FakeDriver.forgetCalls();
            }
          }
          // Some more rest before they are used again.
          assertThat(all).hasSizeLessThan(2 * OPEN);
        });
  }

  /** Only a dispatch by experts has allocated all that such a dispatch needs. */
  @Test
  void aCapturedDispatchByExpertsTakesAHandleOfOne() {
    OneRank.run(
        rank -> {
          List<DispatchHandle> handles = new ArrayList<>();
          for (Layout layout :
              new Layout[] {Layout.FLAT, Layout.EXPERT_MAJOR, Layout.FLAT, Layout.FLAT}) {
            handles.add(rank.dispatch(layout).handle());
          }
          handles.forEach(DispatchHandle::close);
          rank.stream.beginCapture();
          Dispatch captured = rank.dispatch(Layout.EXPERT_MAJOR);
          rank.stream.endCapture().close();
          assertThat(captured.rows()).isEqualTo(OneRank.TOKENS);
        });
  }

  @Test
  void aCaptureThatWouldAllocateTellsWhatToDoBefore() {
    OneRank.run(
        rank -> {
          DispatchHandle kept = rank.dispatch(Layout.FLAT).handle();
          rank.stream.beginCapture();
          assertThatThrownBy(() -> rank.dispatch(Layout.FLAT))
              .hasMessageStartingWith(ErrorCode.CUDA_CALL_FAILED.id())
              .hasMessageContaining("before the capture");
          try (CudaGraph graph = rank.stream.endCapture()) {
            assertThat(graph.nodes()).isZero();
          }
          kept.close();
        });
    FakeDriver.reset();
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
