package org.ep4j.rdma.verbs;

import static org.assertj.core.api.Assertions.assertThat;

import java.lang.foreign.Arena;
import java.time.Duration;
import java.util.Arrays;
import java.util.List;
import java.util.stream.IntStream;
import org.ep4j.ExpertBuffer;
import org.ep4j.FlatDispatch;
import org.ep4j.LowLatencyCombineOptions;
import org.ep4j.LowLatencyDispatch;
import org.ep4j.LowLatencyDispatchOptions;
import org.ep4j.WirePath;
import org.ep4j.config.BufferConfig;
import org.ep4j.config.WireOptions;
import org.ep4j.conformance.world.Available;
import org.ep4j.group.Group;
import org.ep4j.group.ThreadRanks;
import org.ep4j.routing.Routing;
import org.ep4j.tensor.DType;
import org.ep4j.tensor.RowFormat;
import org.ep4j.tensor.Tensor;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

/**
 * An engine opens as many lanes as queue pairs, and each of its operations sends rows over every
 * queue pair. Two ranks of two nodes; all tokens go to the expert of the other rank and come back
 * as they were. Subclasses name the engine.
 */
abstract class QueuePairsKit {
  private static final int HIDDEN = 1024;

  /** Nine chunks of 512 KiB and more: one for each of up to eight lanes of the host engine. */
  private static final int TOKENS = 2304;

  /** Bytes of most rows of a low-latency operation. */
  private static final long ROWS = 24_000;

  // Under emulation.
  private static final Duration TIMEOUT = Duration.ofMinutes(2);

  /** The engine, as in {@link BufferConfig#engine()}. */
  abstract String engine();

  /** Bytes that each lane carries at least of a high-throughput operation. */
  abstract long share();

  /** Tokens of a low-latency operation. */
  int lowLatencyTokens() {
    return 16;
  }

  /** Whether ports read and write memory of GPUs. */
  boolean gpuDirect() {
    return false;
  }

  @ParameterizedTest(name = "{0} ports, {1} queue pairs each")
  @CsvSource({"1, 1", "1, 2", "1, 4", "2, 1", "2, 2", "2, 4"})
  void dispatchAndCombineUseEveryQueuePair(int ports, int queuePairs) {
    Available.orSkip(engine());
    int lanes = ports * queuePairs;
    BufferConfig config =
        BufferConfig.builder()
            .hidden(HIDDEN)
            .topK(1)
            .experts(2)
            .highThroughput(TOKENS)
            .lowLatency(lowLatencyTokens())
            .engine(engine())
            .ranksPerNode(1)
            .wire(ports == 1 ? "verbs-1x1" : "verbs-2x4")
            .wireOptions(
                WireOptions.builder().queuePairs(queuePairs).gpuDirect(gpuDirect()).build())
            .timeout(TIMEOUT)
            .build();
    ThreadRanks.run(
        2,
        group -> {
          try (ExpertBuffer buffer = ExpertBuffer.open(group, config)) {
            WireOptions settled = buffer.config().wireOptions();
            assertThat(settled.lanes()).hasValue(lanes);
            assertThat(settled.queuePairs()).hasValue(queuePairs);
            assertThat(paths(buffer)).hasSize(lanes);
            assertThat(paths(buffer).stream().map(WirePath::port).distinct()).hasSize(ports);
            highThroughput(buffer);
            lowLatency(group, buffer, lanes);
          }
        });
  }

  private void highThroughput(ExpertBuffer buffer) {
    Tensor x = rows(buffer.rank(), TOKENS);
    long[] before = bytes(buffer);
    FlatDispatch dispatch = buffer.dispatch(x, routing(buffer.rank(), TOKENS));
    long[] dispatched = bytes(buffer);
    assertThat(growth(before, dispatched)).allMatch(bytes -> bytes >= share());
    assertSameBits(dispatch.x(), rows(1 - buffer.rank(), TOKENS));

    Tensor sums = buffer.combine(dispatch.x(), dispatch.handle()).x();
    assertThat(growth(dispatched, bytes(buffer))).allMatch(bytes -> bytes >= share());
    assertSameBits(sums, x);
  }

  /**
   * On the host an operation takes one lane: the next one if the rank knows by then that its rows
   * before have been delivered. So the number of operations until all lanes have been used follows
   * from the time that the news takes. On GPUs the warps of an operation take different lanes.
   */
  private void lowLatency(Group group, ExpertBuffer buffer, int lanes) {
    LowLatencyDispatchOptions bf16 =
        LowLatencyDispatchOptions.builder().format(RowFormat.BF16).build();
    Tensor x = rows(buffer.rank(), lowLatencyTokens());
    Routing routing = routing(buffer.rank(), lowLatencyTokens());
    long[] byDispatches = new long[lanes];
    long[] byCombines = new long[lanes];
    for (int round = 0; round < 3 * lanes || !allUsed(group, byDispatches, byCombines); round++) {
      assertThat(round)
          .as("rounds; bytes of dispatches %s", Arrays.toString(byDispatches))
          .isLessThan(500);
      long[] before = bytes(buffer);
      LowLatencyDispatch dispatch = buffer.lowLatencyDispatch(x, routing, bf16);
      long[] dispatched = bytes(buffer);
      Tensor sums =
          buffer
              .lowLatencyCombine(
                  dispatch.x(), routing, dispatch.handle(), LowLatencyCombineOptions.DEFAULT)
              .x();
      long[] combined = bytes(buffer);
      assertSameBits(sums, x);
      for (int path = 0; path < lanes; path++) {
        byDispatches[path] += dispatched[path] - before[path];
        byCombines[path] += combined[path] - dispatched[path];
      }
    }
    assertThat(byDispatches).as("bytes of dispatches").matches(QueuePairsKit::allUsed);
    assertThat(byCombines).as("bytes of combines").matches(QueuePairsKit::allUsed);
  }

  /** Whether all lanes have been used on both ranks, which then end together. */
  private static boolean allUsed(Group group, long[] byDispatches, long[] byCombines) {
    byte own = (byte) (allUsed(byDispatches) && allUsed(byCombines) ? 1 : 0);
    return Arrays.stream(group.allGather(new byte[] {own}, TIMEOUT)).allMatch(all -> all[0] == 1);
  }

  private static void assertSameBits(Tensor actual, Tensor expected) {
    assertThat(actual.shape()).isEqualTo(expected.shape());
    assertThat(actual.onHost(Arena.ofAuto()).segment().mismatch(expected.segment())).isEqualTo(-1);
  }

  private static boolean allUsed(long[] bytes) {
    return Arrays.stream(bytes).allMatch(each -> each >= ROWS);
  }

  private static List<WirePath> paths(ExpertBuffer buffer) {
    return buffer.statistics().wirePaths();
  }

  private static long[] bytes(ExpertBuffer buffer) {
    return paths(buffer).stream().mapToLong(WirePath::bytes).toArray();
  }

  private static List<Long> growth(long[] before, long[] after) {
    return IntStream.range(0, after.length).mapToObj(path -> after[path] - before[path]).toList();
  }

  /** Rows that differ by rank and token, exact in BF16. */
  private static Tensor rows(int rank, int tokens) {
    float[] values = new float[tokens * HIDDEN];
    for (int i = 0; i < values.length; i++) {
      values[i] = 1 + rank * 64 + (i / HIDDEN + i) % 61;
    }
    return Tensor.fromFloats(values, DType.BF16, tokens, HIDDEN);
  }

  private static Routing routing(int rank, int tokens) {
    int[] experts = new int[tokens];
    Arrays.fill(experts, 1 - rank);
    float[] weights = new float[tokens];
    Arrays.fill(weights, 1);
    return Routing.of(experts, weights, 1);
  }
}
