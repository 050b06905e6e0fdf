package org.ep4j.cuda.fake;

import static org.assertj.core.api.Assertions.assertThatThrownBy;

import java.lang.foreign.Arena;
import org.assertj.core.api.ThrowableAssert.ThrowingCallable;
import org.ep4j.CombineOptions;
import org.ep4j.CombineOrder;
import org.ep4j.Dispatch;
import org.ep4j.ExpertBuffer;
import org.ep4j.LowLatencyHandle;
import org.ep4j.config.Layout;
import org.ep4j.cuda.engine.Batch;
import org.ep4j.error.ErrorCode;
import org.ep4j.group.ThreadRanks;
import org.ep4j.tensor.DType;
import org.ep4j.tensor.Tensor;
import org.junit.jupiter.api.Test;

/**
 * What this engine refuses like the host engine, with the same codes, and what it alone refuses.
 */
@OnFakeDriver
class SharedChecksTest {
  @Test
  void highThroughputCallsOfABufferWithoutTheseOperations() {
    OneRank.run(
        rank ->
            ThreadRanks.run(
                1,
                group -> {
                  try (ExpertBuffer buffer =
                      ExpertBuffer.open(group, Batch.config().lowLatency(OneRank.TOKENS).build())) {
                    refused(
                        ErrorCode.HIGH_THROUGHPUT_OFF,
                        () -> buffer.dispatchLayout(rank.batch.routing));
                  }
                }));
  }

  @Test
  void everyCallOfAClosedBuffer() {
    OneRank.run(
        rank -> {
          rank.buffer.close();
          refused(ErrorCode.BUFFER_CLOSED, () -> rank.buffer.isMasked(0));
          refused(ErrorCode.BUFFER_CLOSED, rank.buffer::parallelism);
          try (Arena arena = Arena.ofConfined()) {
            Tensor mask = Tensor.allocate(arena, DType.INT32, 1);
            refused(ErrorCode.BUFFER_CLOSED, () -> rank.buffer.queryMask(mask));
          }
        });
  }

  @Test
  void rowsThatACombineCannotSum() {
    OneRank.run(
        rank ->
            refused(
                ErrorCode.TYPE_NOT_SUMMED,
                () -> rank.dispatch(Layout.FLAT).combineInput(DType.FP8_E4M3)));
  }

  @Test
  void aLowLatencyHandleOfAnotherBuffer() {
    OneRank.run(
        rank -> {
          LowLatencyHandle handle =
              rank.buffer
                  .lowLatencyDispatch(
                      rank.batch.x, rank.batch.routing, rank.lowLatencyDispatching(false))
                  .handle();
          OneRank.run(
              other ->
                  refused(
                      ErrorCode.WRONG_HANDLE, () -> other.buffer.lowLatencyCombineBuffer(handle)));
        });
  }

  @Test
  void rowsThatPeersCannotReadInTheOrderOfExperts() {
    CombineOptions byExperts = CombineOptions.builder().order(CombineOrder.EXPERT).build();
    OneRank.run(
        rank -> {
          Dispatch received = rank.dispatch(Layout.EXPERT_MAJOR);
          try (Arena arena = Arena.ofConfined()) {
            Tensor x = received.x();
            Tensor elsewhere = Tensor.allocate(arena, x.dtype(), x.size(0), x.size(1));
            refused(
                ErrorCode.CUDA_ORDERED_ROWS,
                () -> rank.buffer.combine(elsewhere, received.handle(), byExperts));
          }
        });
  }

  private static void refused(ErrorCode code, ThrowingCallable call) {
    assertThatThrownBy(call).hasMessageStartingWith(code.id());
  }
}
