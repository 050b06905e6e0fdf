package org.ep4j.cuda.fake;

import static org.assertj.core.api.Assertions.assertThat;

import java.util.List;
import org.ep4j.ExpertBuffer;
import org.ep4j.LowLatencyDispatchOptions;
import org.ep4j.config.BufferConfig;
import org.ep4j.conformance.world.TestScale;
import org.ep4j.cuda.driver.CudaDevice;
import org.ep4j.cuda.driver.CudaStream;
import org.ep4j.cuda.engine.Batch;
import org.ep4j.error.ErrorCode;
import org.ep4j.execution.DeviceStream;
import org.ep4j.execution.Execution;
import org.ep4j.tensor.RowFormat;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.condition.EnabledIfSystemProperty;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.ValueSource;

/**
 * Ranks that return to a buffer of two nodes. A reset afterwards sends over every lane of the new
 * connection and waits for what the other ranks send.
 */
@OnFakeDriver
@Timeout(120)
class RejoinAcrossNodesTest {
  /** Nodes of two ranks and of one. */
  private static final int RANKS = 3;

  private static final int OUT_OF_MEMORY = 2;

  private static BufferConfig both(String wire) {
    return Batch.config(OneRank.TOKENS)
        .lowLatency(OneRank.TOKENS)
        .timeout(ReturningRanks.LONG)
        .ranksPerNode(2)
        .wire(wire)
        .build();
  }

  private static void allExchange(ReturningRanks ranks) throws Exception {
    ranks.onLive(
        rank -> {
          ranks.buffer(rank).barrier();
          ranks.buffer(rank).reset();
          ranks.buffer(rank).barrier();
        });
  }

  /** One of the two ranks of a node, or a node; the same again, with the new connection. */
  @ParameterizedTest
  @CsvSource({"tcp, 0, 2", "tcp, 2, 1", "staged, 1, 1", "staged, 2, 1"})
  void aRankReturns(String wire, int lost, int times) throws Exception {
    try (ReturningRanks ranks = new ReturningRanks(RANKS, both(wire))) {
      // A rank that is a thread stays in the groups of its connection, whose host waits for it.
      for (int i = 0; i < TestScale.of(times, 2); i++) {
        ranks.lose(lost);
        ranks.start(lost);
        ranks.onLive(ranks::takeIn);
        ranks.onLive(rank -> assertThat(ranks.buffer(rank).isMasked(lost)).isFalse());
        allExchange(ranks);
      }
    }
  }

  /** The others have continued without the rank. */
  @ParameterizedTest
  @ValueSource(ints = {0, 2})
  void aRankReturnsAfterAReset(int lost) throws Exception {
    try (ReturningRanks ranks = new ReturningRanks(RANKS, both("tcp"))) {
      ranks.lose(lost);
      ranks.onLive(rank -> ranks.buffer(rank).reset());
      allExchange(ranks);
      ranks.start(lost);
      ranks.onLive(ranks::takeIn);
      allExchange(ranks);
    }
  }

  /** The wire then connects fewer ranks than the buffer has. */
  @ParameterizedTest
  @ValueSource(strings = {"tcp", "staged"})
  void lostRanksReturnOneAfterTheOther(String wire) throws Exception {
    try (ReturningRanks ranks = new ReturningRanks(RANKS, both(wire))) {
      ranks.lose(0, 2);
      for (int back : new int[] {2, 0}) {
        ranks.start(back);
        ranks.onLive(ranks::takeIn);
        allExchange(ranks);
      }
    }
  }

  /** Kernels get the addresses of the new connection; the table of the nodes stays. */
  @Test
  void lowLatencyUsesTheNewMemory() throws Exception {
    try (ReturningRanks ranks = new ReturningRanks(RANKS, both("tcp"));
        CudaDevice device = CudaDevice.open(0);
        Batch batch = new Batch(device, OneRank.TOKENS)) {
      batch.fill(0, 1);
      lowLatency(ranks.buffer(0), batch, Execution.SYNCHRONOUS);
      FakeKernels.Launch before = FakeKernels.launches().getLast();
      ranks.lose(2);
      ranks.start(2);
      ranks.onLive(ranks::takeIn);
      lowLatency(ranks.buffer(0), batch, Execution.SYNCHRONOUS);
      FakeKernels.Launch after = FakeKernels.launches().getLast();
      assertThat(after.get("internode_part")).isNotEqualTo(before.get("internode_part"));
      assertThat(after.get("puts")).isEqualTo(before.get("puts"));
    }
  }

  /** A replay would read memory that is no longer there. */
  @Test
  void graphsOfLowLatencyAreRefusedOnAllRanks() throws Exception {
    try (CudaDevice device = CudaDevice.open(0);
        Batch batch = new Batch(device, OneRank.TOKENS);
        CudaStream stream = CudaStream.create(device);
        ReturningRanks ranks = new ReturningRanks(RANKS, both("tcp"))) {
      batch.fill(0, 1);
      stream.beginCapture();
      try {
        lowLatency(ranks.buffer(0), batch, Execution.on(new DeviceStream(stream.handle())));
      } finally {
        stream.endCapture().close();
      }
      ranks.lose(1);
      ranks.start(1);
      List<Throwable> refusals = ranks.refusals();
      assertThat(refusals).hasSize(RANKS);
      for (Throwable refusal : refusals) {
        assertThat(refusal)
            .hasMessageContaining(ErrorCode.READMISSION_UNSUPPORTED.id())
            .hasMessageContaining("were captured in graphs");
      }
      // The others then close without waiting for it.
      ranks.lose(1);
    }
  }

  private static void lowLatency(ExpertBuffer buffer, Batch batch, Execution execution) {
    buffer.lowLatencyDispatch(
        batch.x,
        batch.routing,
        LowLatencyDispatchOptions.builder()
            .format(RowFormat.BF16)
            .returnHook(true)
            .execution(execution)
            .build());
  }

  /**
   * Whatever fails before the ranks begin, no rank waits for the timeout, the buffers are
   * unchanged, and they can take the rank in later.
   */
  @ParameterizedTest
  @CsvSource({
    "tcp, cuMemAlloc_v2",
    "tcp, cuMemHostAlloc",
    "tcp, cuMemHostRegister_v2",
    "staged, cuMemHostRegister_v2",
    "tcp, cuModuleLoadDataEx",
    "tcp, cuDevicePrimaryCtxRetain",
    "staged, cuIpcOpenMemHandle_v2"
  })
  void aRankThatCannotConnectTellsAllOthers(String wire, String failing) throws Exception {
    try (ReturningRanks ranks = new ReturningRanks(RANKS, both(wire))) {
      ranks.lose(1);
      ranks.start(1);
      for (int nth = 1; nth <= 2; nth++) {
        requireAllFail(ranks, failing, nth);
      }
      ranks.onLive(ranks::takeIn);
      allExchange(ranks);
    }
  }

  private static void requireAllFail(ReturningRanks ranks, String failing, int nth)
      throws Exception {
    FakeDriver.failCall(failing, nth, OUT_OF_MEMORY);
    List<Throwable> refusals = ranks.refusals();
    assertThat(refusals).as("call %d", nth).hasSize(RANKS);
    for (Throwable refusal : refusals) {
      assertThat(refusal).as("call %d", nth).hasMessageContaining(failing + " failed");
    }
  }

  /** Also while the ranks begin, when some have replaced their connection already. */
  @EnabledIfSystemProperty(named = "ep4j.full", matches = "true")
  @ParameterizedTest
  @CsvSource({"tcp, cuMemAlloc_v2", "tcp, cuMemHostAlloc", "staged, cuMemHostRegister_v2"})
  @Timeout(300)
  void eachCallOfTheDriverMayFail(String wire, String failing) throws Exception {
    int lost = 0;
    try (ReturningRanks ranks = new ReturningRanks(RANKS, both(wire))) {
      int nth = 0;
      boolean failed = true;
      while (failed) {
        ranks.lose(lost);
        ranks.start(lost);
        nth++;
        FakeDriver.failCall(failing, nth, OUT_OF_MEMORY);
        List<Throwable> refusals = ranks.refusals();
        failed = !refusals.isEmpty();
        assertThat(refusals).as("call %d", nth).hasSize(failed ? RANKS : 0);
      }
      System.out.printf("%s over %s: %d calls have failed%n", failing, wire, nth - 1);
      FakeDriver.failCall(failing, Integer.MAX_VALUE, OUT_OF_MEMORY);
      allExchange(ranks);
    }
  }
}
