package org.ep4j.cuda.fake;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import org.assertj.core.api.ThrowableAssert.ThrowingCallable;
import org.ep4j.Combine;
import org.ep4j.Dispatch;
import org.ep4j.DispatchHandle;
import org.ep4j.LowLatencyDispatch;
import org.ep4j.RankMajorDispatch;
import org.ep4j.config.Layout;
import org.ep4j.cuda.driver.CudaGraph;
import org.ep4j.cuda.driver.CudaGraphExec;
import org.ep4j.error.ErrorCode;
import org.ep4j.tensor.DType;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.EnumSource;
import org.junit.jupiter.params.provider.ValueSource;

/** How long results can be read: until the next operation, or as long as their graph. */
@OnFakeDriver
class ResultLifetimeTest {
  /** More than a buffer has result objects. */
  private static final int LATER = 9;

  private static final int LAUNCH_FAILED = 719;

  @ParameterizedTest
  @EnumSource(
      value = Layout.class,
      names = {"FLAT", "EXPERT_MAJOR"})
  void theNextDispatchOutdatesADispatch(Layout layout) {
    OneRank.run(
        rank -> {
          Dispatch dispatch = rank.dispatch(layout);
          assertThat(dispatch.x().size(0)).isEqualTo(OneRank.TOKENS);
          rank.dispatch(layout);
          assertOutdated(dispatch::x);
          assertOutdated(dispatch::counts);
        });
  }

  @Test
  void theNextCombineOutdatesACombine() {
    OneRank.run(
        rank -> {
          Dispatch dispatch = rank.dispatch(Layout.FLAT);
          try (DispatchHandle handle = dispatch.handle()) {
            Combine combine = combine(rank, dispatch, handle);
            assertThat(combine.x().size(0)).isEqualTo(OneRank.TOKENS);
            combine(rank, dispatch, handle);
            assertOutdated(combine::x);
          }
        });
  }

  @Test
  void theSecondNextDispatchOutdatesALowLatencyDispatch() {
    OneRank.run(
        rank -> {
          RankMajorDispatch dispatch =
              rank.buffer.lowLatencyDispatchByRank(
                  rank.batch.x, rank.batch.routing, rank.lowLatencyDispatching(false));
          lowLatency(rank);
          assertThat(dispatch.topkIdx().size(0)).isPositive();
          lowLatency(rank);
          assertOutdated(dispatch::topkIdx);
        });
  }

  @ParameterizedTest
  @EnumSource(
      value = Layout.class,
      names = {"FLAT", "EXPERT_MAJOR"})
  void aCapturedDispatchStaysReadable(Layout layout) {
    OneRank.run(
        rank -> {
          rank.dispatch(layout).handle().close(); // allocates
          rank.stream.beginCapture();
          Dispatch captured = rank.dispatch(layout);
          replay(
              rank,
              () -> {
                assertThat(captured.rows()).isEqualTo(OneRank.TOKENS);
                assertThat(captured.counts().size(0)).isPositive();
              });
        });
  }

  /** Its handle is older than the graph, so the result itself must know that it is captured. */
  @ParameterizedTest
  @EnumSource(
      value = Layout.class,
      names = {"FLAT", "EXPERT_MAJOR"})
  void aCachedDispatchInACapturedGraphStaysReadable(Layout layout) {
    OneRank.run(
        rank -> {
          try (DispatchHandle handle = rank.dispatch(layout).handle()) {
            rank.stream.beginCapture();
            Dispatch captured = rank.buffer.dispatch(layout, rank.tokens, handle, rank.onStream);
            replay(rank, () -> assertThat(captured.x().size(0)).isEqualTo(OneRank.TOKENS));
          }
        });
  }

  @Test
  void aCapturedCombineStaysReadable() {
    OneRank.run(
        rank -> {
          Dispatch dispatch = rank.dispatch(Layout.FLAT);
          try (DispatchHandle handle = dispatch.handle()) {
            combine(rank, dispatch, handle); // allocates
            rank.stream.beginCapture();
            Combine captured = combine(rank, dispatch, handle);
            replay(rank, () -> assertThat(captured.x().size(0)).isEqualTo(OneRank.TOKENS));
          }
        });
  }

  /** The recovery fails at its first call of the driver, the read of the epoch. */
  @ParameterizedTest
  @ValueSource(booleans = {false, true})
  void aRecoveryOutdatesResultsBeforeItBegins(boolean readmission) {
    OneRank.run(
        rank -> {
          Dispatch dispatch = rank.dispatch(Layout.FLAT);
          Combine combine;
          try (DispatchHandle handle = dispatch.handle()) {
            combine = combine(rank, dispatch, handle);
          }
          FakeDriver.failCall("cuMemcpyDtoH_v2", 1, LAUNCH_FAILED);
          assertThatThrownBy(readmission ? rank.buffer::readmit : rank.buffer::reset)
              .hasMessageStartingWith(ErrorCode.CUDA_CALL_FAILED.id());
          assertOutdated(dispatch::x);
          assertOutdated(combine::x);
          rank.buffer.reset();
          assertThat(rank.dispatch(Layout.FLAT).rows()).isEqualTo(OneRank.TOKENS);
        });
  }

  @Test
  void aResetOutdatesHandles() {
    OneRank.run(
        rank -> {
          Dispatch dispatch = rank.dispatch(Layout.FLAT);
          try (DispatchHandle handle = dispatch.handle()) {
            rank.buffer.reset();
            assertThatThrownBy(
                    () -> rank.buffer.dispatch(Layout.FLAT, rank.tokens, handle, rank.onStream))
                .hasMessageStartingWith(ErrorCode.HANDLE_STALE.id());
          }
        });
  }

  /** Ends the capture; reads the result after other operations, after a replay, and after more. */
  private static void replay(OneRank rank, Runnable read) {
    try (CudaGraph graph = rank.stream.endCapture();
        CudaGraphExec exec = graph.instantiate()) {
      others(rank);
      read.run();
      int before = FakeDriver.calls("cuGraphLaunch").size();
      exec.launch(rank.stream);
      assertThat(FakeDriver.calls("cuGraphLaunch")).hasSize(before + 1);
      read.run();
      others(rank);
      read.run();
    }
  }

  private static void others(OneRank rank) {
    for (int i = 0; i < LATER; i++) {
      for (Layout layout : new Layout[] {Layout.FLAT, Layout.EXPERT_MAJOR}) {
        Dispatch dispatch = rank.dispatch(layout);
        try (DispatchHandle handle = dispatch.handle()) {
          combine(rank, dispatch, handle);
        }
      }
    }
  }

  private static Combine combine(OneRank rank, Dispatch dispatch, DispatchHandle handle) {
    return rank.buffer.combine(dispatch.combineInput(DType.BF16), handle, rank.combining());
  }

  private static LowLatencyDispatch lowLatency(OneRank rank) {
    return rank.buffer.lowLatencyDispatch(
        rank.batch.x, rank.batch.routing, rank.lowLatencyDispatching(false));
  }

  private static void assertOutdated(ThrowingCallable read) {
    assertThatThrownBy(read).hasMessageStartingWith("EP4J-2323");
  }
}
