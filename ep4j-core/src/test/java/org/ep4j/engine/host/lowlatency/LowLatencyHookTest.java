package org.ep4j.engine.host.lowlatency;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;
import static org.ep4j.engine.host.buffer.Tensors.ints;
import static org.ep4j.engine.host.lowlatency.LowLatencyCase.BF16;
import static org.ep4j.engine.host.lowlatency.LowLatencyCase.HOOK;
import static org.ep4j.engine.host.lowlatency.LowLatencyCase.ZERO_COPY;
import static org.ep4j.engine.host.lowlatency.LowLatencyCase.assertSums;
import static org.ep4j.engine.host.lowlatency.LowLatencyCase.combine;
import static org.ep4j.engine.host.lowlatency.LowLatencyCase.config;
import static org.ep4j.engine.host.lowlatency.LowLatencyCase.dispatch;
import static org.ep4j.engine.host.lowlatency.LowLatencyCase.expertRows;
import static org.ep4j.engine.host.lowlatency.LowLatencyCase.onBothRanks;
import static org.ep4j.engine.host.lowlatency.LowLatencyCase.routing;
import static org.ep4j.engine.host.lowlatency.LowLatencyCase.rows;
import static org.ep4j.engine.host.lowlatency.LowLatencyCase.runExperts;
import static org.ep4j.engine.host.lowlatency.LowLatencyCase.send;

import org.ep4j.ExpertBuffer;
import org.ep4j.LowLatencyCombine;
import org.ep4j.LowLatencyCombineOptions;
import org.ep4j.LowLatencyDispatch;
import org.ep4j.LowLatencyHandle;
import org.ep4j.error.ErrorCode;
import org.ep4j.execution.ReceiveHook;
import org.ep4j.group.ThreadRanks;
import org.ep4j.tensor.Tensor;
import org.junit.jupiter.api.Test;

/** Operations in two halves, and the lifetime of results. */
class LowLatencyHookTest {
  @Test
  void resultsAreReadableAfterTheHook() {
    onBothRanks(
        (buffer, rank) -> {
          LowLatencyDispatch d = send(buffer);
          assertThatThrownBy(d::x)
              .isInstanceOf(IllegalStateException.class)
              .hasMessageStartingWith(ErrorCode.HOOK_NOT_CALLED.message("low-latency dispatch 1 "));
          d.hook().receive();
          assertThat(ints(d.counts())).containsExactly(2, 2);
          Tensor y = runExperts(rank, d, expertRows());
          LowLatencyCombine c = buffer.lowLatencyCombine(y, routing(rank), d.handle(), HOOK);
          y.segment().fill((byte) 0); // the rows have been sent
          assertThatThrownBy(c::x).isInstanceOf(IllegalStateException.class);
          c.hook().receive();
          assertSums(rank, c.x());
        });
  }

  @Test
  void tensorsOfAPendingResultAreFilledByTheHook() {
    onBothRanks(
        (buffer, rank) -> {
          LowLatencyDispatch d = send(buffer);
          Tensor x = d.pending().x();
          Tensor counts = d.pending().counts();
          Tensor sources = d.pending().handle().srcInfo();
          d.hook().receive();
          assertThat(x.segment().address()).isEqualTo(d.x().segment().address());
          assertThat(ints(counts)).containsExactly(2, 2);
          assertThat(sources.segment().address())
              .isEqualTo(d.handle().srcInfo().segment().address());
          Tensor y = runExperts(rank, d.pending(), expertRows());
          LowLatencyCombineOptions options = LowLatencyCombineOptions.DEFAULT;
          assertSums(
              rank, buffer.lowLatencyCombine(y, routing(rank), d.pending().handle(), options).x());
        });
  }

  @Test
  void aPendingResultIsOutdatedToo() {
    onBothRanks(
        (buffer, rank) -> {
          LowLatencyDispatch d = send(buffer).pending();
          d.hook().receive();
          dispatch(buffer);
          dispatch(buffer);
          assertThatThrownBy(d::x)
              .isInstanceOf(IllegalStateException.class)
              .hasMessageStartingWith(ErrorCode.RESULTS_OVERWRITTEN.id());
        });
  }

  @Test
  void sentRowsMayChangeBeforeTheHook() {
    onBothRanks(
        (buffer, rank) -> {
          Tensor x = rows(rank);
          LowLatencyDispatch d =
              buffer.lowLatencyDispatch(x, routing(rank), LowLatencyCase.BF16_HOOK);
          x.segment().fill((byte) 0);
          d.hook().receive();
          assertSums(rank, combine(buffer, d));
        });
  }

  @Test
  void twoOperationsMayBeInFlightAndEndInAnyOrder() {
    onBothRanks(
        (buffer, rank) -> {
          for (int round = 0; round < 6; round++) {
            LowLatencyDispatch a = send(buffer);
            LowLatencyDispatch b = send(buffer);
            boolean forward = (round + rank) % 2 == 0;
            (forward ? a : b).hook().receive();
            (forward ? b : a).hook().receive();
            Tensor ya = runExperts(rank, a, expertRows());
            Tensor yb = runExperts(rank, b, expertRows());
            LowLatencyCombine ca = buffer.lowLatencyCombine(ya, routing(rank), a.handle(), HOOK);
            LowLatencyCombine cb = buffer.lowLatencyCombine(yb, routing(rank), b.handle(), HOOK);
            (forward ? cb : ca).hook().receive();
            (forward ? ca : cb).hook().receive();
            assertSums(rank, ca.x());
            assertSums(rank, cb.x());
          }
        });
  }

  @Test
  void combineAndNextDispatchOverlap() {
    onBothRanks(
        (buffer, rank) -> {
          LowLatencyDispatch d = send(buffer);
          d.hook().receive();
          for (int round = 0; round < 8; round++) {
            Tensor y = runExperts(rank, d, expertRows());
            LowLatencyCombine c = buffer.lowLatencyCombine(y, routing(rank), d.handle(), HOOK);
            LowLatencyDispatch next = send(buffer);
            if (round % 2 == 0) {
              c.hook().receive();
            }
            next.hook().receive(); // receives the combine, too, if it is unreceived
            assertSums(rank, c.x());
            d = next;
          }
        });
  }

  @Test
  void synchronousOperationReceivesWhatIsInFlightBefore() {
    onBothRanks(
        (buffer, rank) -> {
          LowLatencyDispatch a = send(buffer);
          dispatch(buffer);
          assertThat(ints(a.counts())).containsExactly(2, 2);
          a.hook().receive();
        });
  }

  @Test
  void thirdOperationInFlightIsRefused() {
    onBothRanks(
        (buffer, rank) -> {
          LowLatencyDispatch a = send(buffer);
          LowLatencyDispatch b = send(buffer);
          assertThatThrownBy(() -> send(buffer))
              .isInstanceOf(IllegalStateException.class)
              .hasMessageStartingWith(ErrorCode.TOO_MANY_IN_FLIGHT.id());
          a.hook().receive();
          LowLatencyDispatch c = send(buffer);
          b.hook().receive();
          c.hook().receive();
        });
  }

  @Test
  void hookIsCalledOnce() {
    onBothRanks(
        (buffer, rank) -> {
          LowLatencyDispatch d = send(buffer);
          ReceiveHook hook = d.hook();
          hook.receive();
          assertThatThrownBy(hook::receive)
              .isInstanceOf(IllegalStateException.class)
              .hasMessageStartingWith(
                  ErrorCode.HOOK_CALLED_TWICE.message("the hook of low-latency dispatch 1 "));
        });
  }

  @Test
  void operationWithoutHookHasNone() {
    onBothRanks(
        (buffer, rank) ->
            assertThatThrownBy(() -> dispatch(buffer).hook())
                .isInstanceOf(IllegalStateException.class)
                .hasMessageStartingWith(ErrorCode.NO_HOOK.id()));
  }

  @Test
  void combineNeedsTheReceivedDispatch() {
    onBothRanks(
        (buffer, rank) -> {
          LowLatencyDispatch d = send(buffer);
          LowLatencyCombineOptions options = LowLatencyCombineOptions.DEFAULT;
          assertThatThrownBy(
                  () -> buffer.lowLatencyCombine(expertRows(), routing(rank), d.handle(), options))
              .isInstanceOf(IllegalStateException.class)
              .hasMessageStartingWith(ErrorCode.HOOK_NOT_CALLED.message("low-latency dispatch 1 "));
          d.hook().receive();
        });
  }

  @Test
  void combineRegionIsRefusedWhilePeersReadIt() {
    onBothRanks(
        (buffer, rank) -> {
          LowLatencyDispatch d = dispatch(buffer);
          Tensor y = runExperts(rank, d, expertRows());
          LowLatencyHandle handle = d.handle();
          LowLatencyCombine c = buffer.lowLatencyCombine(y, routing(rank), handle, HOOK);
          assertThatThrownBy(() -> buffer.lowLatencyCombineBuffer(handle))
              .isInstanceOf(IllegalStateException.class)
              .hasMessageStartingWith(
                  ErrorCode.COMBINE_REGION_IN_USE.message("the rows of low-latency combine 2 "));
          assertThatThrownBy(() -> buffer.lowLatencyCombine(y, routing(rank), handle, HOOK))
              .isInstanceOf(IllegalStateException.class)
              .hasMessageStartingWith(ErrorCode.COMBINE_REGION_IN_USE.id());
          c.hook().receive();
          Tensor region = buffer.lowLatencyCombineBuffer(handle);
          region.segment().copyFrom(y.segment());
          assertSums(rank, buffer.lowLatencyCombine(region, routing(rank), handle, ZERO_COPY).x());
        });
  }

  @Test
  void resultsOutliveOneFurtherDispatchNotTwo() {
    onBothRanks(
        (buffer, rank) -> {
          LowLatencyDispatch a = dispatch(buffer);
          LowLatencyDispatch b = dispatch(buffer);
          Tensor y = runExperts(rank, a, expertRows());
          LowLatencyCombine sums =
              buffer.lowLatencyCombine(
                  y, routing(rank), a.handle(), LowLatencyCombineOptions.DEFAULT);
          assertSums(rank, sums.x());
          dispatch(buffer);
          assertThat(ints(b.counts())).containsExactly(2, 2);
          assertThatThrownBy(a::x)
              .isInstanceOf(IllegalStateException.class)
              .hasMessageStartingWith(
                  ErrorCode.RESULTS_OVERWRITTEN.message("the results of low-latency dispatch 1 "));
          assertThatThrownBy(() -> a.handle().layoutRange())
              .isInstanceOf(IllegalStateException.class);
          assertThatThrownBy(() -> buffer.lowLatencyCombineBuffer(a.handle()))
              .isInstanceOf(IllegalStateException.class);
          assertThatThrownBy(
                  () ->
                      buffer.lowLatencyCombine(
                          y, routing(rank), a.handle(), LowLatencyCombineOptions.DEFAULT))
              .isInstanceOf(IllegalStateException.class)
              .hasMessageStartingWith(ErrorCode.RESULTS_OVERWRITTEN.id());
          for (int i = 0; i < 2; i++) {
            buffer.lowLatencyCombine(
                y, routing(rank), b.handle(), LowLatencyCombineOptions.DEFAULT);
          }
          assertThatThrownBy(sums::x)
              .isInstanceOf(IllegalStateException.class)
              .hasMessageStartingWith(
                  ErrorCode.RESULTS_OVERWRITTEN.message("the results of low-latency combine 3 "));
          buffer.reset();
          assertThatThrownBy(b::x)
              .hasMessageStartingWith(ErrorCode.RESULTS_OVERWRITTEN.id())
              .hasMessageContaining("next low-latency dispatch or reset() of the buffer");
        });
  }

  @Test
  void hookOfAClosedBufferIsRefused() {
    ThreadRanks.run(
        2,
        group -> {
          ExpertBuffer buffer = ExpertBuffer.open(group, config().build());
          LowLatencyDispatch d =
              buffer.lowLatencyDispatch(
                  rows(group.rank()), routing(group.rank()), LowLatencyCase.BF16_HOOK);
          assertThat(BF16.returnHook()).isFalse();
          ReceiveHook hook = d.hook();
          buffer.close();
          assertThatThrownBy(hook::receive)
              .isInstanceOf(IllegalStateException.class)
              .hasMessageStartingWith(ErrorCode.BUFFER_CLOSED.id());
        });
  }
}
