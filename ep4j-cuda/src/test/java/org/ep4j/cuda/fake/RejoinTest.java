package org.ep4j.cuda.fake;

import static org.assertj.core.api.Assertions.assertThat;

import java.util.List;
import org.ep4j.DispatchOptions;
import org.ep4j.Sizing;
import org.ep4j.Tokens;
import org.ep4j.config.BufferConfig;
import org.ep4j.cuda.driver.CudaDevice;
import org.ep4j.cuda.engine.Batch;
import org.ep4j.execution.Execution;
import org.ep4j.memory.NativeMemory;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/** A rank that returns to a buffer of one node. */
@OnFakeDriver
@Timeout(120)
class RejoinTest {
  private static final int RANKS = 3;
  private static final int LOST = RANKS - 1;
  private static final int OUT_OF_MEMORY = 2;
  private static final DispatchOptions ASYNCHRONOUS =
      DispatchOptions.builder()
          .sizing(Sizing.atMost(RANKS * OneRank.TOKENS))
          .execution(Execution.ASYNCHRONOUS)
          .build();
  private static final BufferConfig CONFIG =
      Batch.config(OneRank.TOKENS).lowLatency(OneRank.TOKENS).timeout(ReturningRanks.LONG).build();

  /** Kernels that wait for the new process must not find it gone. */
  @ParameterizedTest
  @ValueSource(booleans = {false, true})
  void aRankReturns(boolean lowLatency) throws Exception {
    BufferConfig config =
        lowLatency ? CONFIG : Batch.config(OneRank.TOKENS).timeout(ReturningRanks.LONG).build();
    try (ReturningRanks ranks = new ReturningRanks(RANKS, config)) {
      ranks.lose(LOST);
      ranks.start(LOST);
      ranks.onLive(ranks::takeIn);
      try (CudaDevice device = CudaDevice.open(0);
          Batch batch = new Batch(device, OneRank.TOKENS)) {
        batch.fill(0, 1);
        ranks.buffer(0).dispatch(Tokens.of(batch.x), batch.routing, ASYNCHRONOUS);
        long gone = FakeKernels.launches().getLast().get("host_abort") + Long.BYTES;
        assertThat(NativeMemory.getLongAcquire(gone + (long) LOST * Long.BYTES)).isZero();
      }
    }
  }

  /** Whatever fails, no rank waits for the timeout, and the buffers can take the rank in later. */
  @ParameterizedTest
  @ValueSource(
      strings = {
        "cuMemAlloc_v2",
        "cuMemHostAlloc",
        "cuModuleLoadDataEx",
        "cuDevicePrimaryCtxRetain",
        "cuIpcOpenMemHandle_v2"
      })
  void aRankThatCannotReturnTellsAllOthers(String failing) throws Exception {
    try (ReturningRanks ranks = new ReturningRanks(RANKS, CONFIG)) {
      ranks.lose(LOST);
      ranks.start(LOST);
      for (int nth = 1; nth <= 3; nth++) {
        FakeDriver.failCall(failing, nth, OUT_OF_MEMORY);
        List<Throwable> refusals = ranks.refusals();
        assertThat(refusals).as("call %d", nth).hasSize(RANKS);
        for (Throwable refusal : refusals) {
          assertThat(refusal).as("call %d", nth).hasMessageContaining(failing + " failed");
        }
      }
      ranks.onLive(ranks::takeIn);
    }
  }
}
