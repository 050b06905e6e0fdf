package org.ep4j.cuda.fake;

import static org.assertj.core.api.Assertions.assertThat;

import java.nio.ByteBuffer;
import java.time.Duration;
import java.util.Collections;
import java.util.List;
import java.util.Map;
import java.util.stream.Collectors;
import java.util.stream.Stream;
import org.ep4j.BufferSizes;
import org.ep4j.BufferSizes.Part;
import org.ep4j.BufferStatistics;
import org.ep4j.CombineOptions;
import org.ep4j.Dispatch;
import org.ep4j.ExpertBuffer;
import org.ep4j.FlatDispatch;
import org.ep4j.GroupedDispatch;
import org.ep4j.LowLatencyDispatch;
import org.ep4j.config.BufferConfig;
import org.ep4j.config.HighThroughputConfig;
import org.ep4j.config.Layout;
import org.ep4j.config.LowLatencyConfig;
import org.ep4j.config.WireName;
import org.ep4j.cuda.engine.Batch;
import org.ep4j.cuda.engine.failure.CallLog;
import org.ep4j.cuda.fake.FakeDriver.Kind;
import org.ep4j.group.Group;
import org.ep4j.group.ThreadRanks;
import org.ep4j.tensor.DType;
import org.ep4j.tensor.Tensor;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

/** {@code ExpertBuffer.sizes} and statistics against what the driver has given, to the byte. */
@OnFakeDriver
class SizesTest {
  private static final int TOKENS = 16;
  private static final Duration LIMIT = Duration.ofSeconds(30);

  private static BufferConfig config(
      String kinds, int ranksPerNode, String wire, Layout... layouts) {
    BufferConfig.Builder config = Batch.config().ranksPerNode(ranksPerNode).wire(wire);
    if (!kinds.equals("low latency")) {
      config.highThroughput(
          HighThroughputConfig.builder().maxTokens(TOKENS).layouts(layouts).build());
    }
    LowLatencyConfig lowLatency =
        LowLatencyConfig.builder().maxTokens(TOKENS).masking(kinds.equals("both, masks")).build();
    return kinds.equals("high throughput") ? config.build() : config.lowLatency(lowLatency).build();
  }

  @ParameterizedTest
  @CsvSource({
    "high throughput, 1, 1, auto",
    "low latency, 1, 1, auto",
    "both, 1, 1, auto",
    "both, 2, 2, auto",
    "both, 3, 3, auto",
    "high throughput, 2, 1, staged",
    "low latency, 2, 1, staged",
    "both, 4, 2, staged",
    "high throughput, 2, 1, tcp",
    "low latency, 2, 1, tcp",
    "both, 4, 2, tcp",
    "both, 3, 2, tcp",
    "both, 3, 1, tcp",
    "'both, masks', 3, 2, tcp",
    "'both, masks', 3, 2, staged",
  })
  void anOpenBufferHasTheMemoryThatSizesNames(
      String kinds, int ranks, int ranksPerNode, String wire) {
    hasTheMemoryThatSizesNames(
        config(kinds, ranksPerNode, wire, Layout.FLAT, Layout.EXPERT_MAJOR), ranks);
  }

  @Test
  void aDeclaredLossOfRanksTakesTheMemoryThatSizesNames() {
    BufferConfig none = config("both", 2, WireName.TCP, Layout.FLAT, Layout.EXPERT_MAJOR);
    HighThroughputConfig part = none.highThroughput().orElseThrow();
    BufferConfig one =
        none.toBuilder().highThroughput(part.toBuilder().lostRanks(1).build()).build();
    Map<String, Long> before = bytesOfParts(none);
    Map<String, Long> after = bytesOfParts(one);
    for (String name :
        List.of(
            "returning rows",
            "between nodes: arriving rows",
            "between nodes: counters",
            "between nodes: leaving rows",
            "between nodes: tables",
            "a handle")) {
      assertThat(after.get(name)).as(name).isGreaterThan(before.get(name));
    }
    hasTheMemoryThatSizesNames(one, 4);
  }

  private static Map<String, Long> bytesOfParts(BufferConfig config) {
    return ExpertBuffer.sizes(config, 4).parts().stream()
        .collect(Collectors.toMap(Part::name, Part::bytes));
  }

  private static void hasTheMemoryThatSizesNames(BufferConfig config, int ranks) {
    ThreadRanks.run(
        ranks,
        group -> {
          try (ExpertBuffer buffer = ExpertBuffer.open(group, config)) {
            group.barrier(LIMIT);
            BufferSizes sizes = ExpertBuffer.sizes(config, ranks);
            assertThat(ExpertBuffer.sizes(buffer.config(), ranks)).isEqualTo(sizes);
            BufferStatistics statistics = buffer.statistics();
            List<Long> ofRanks =
                gathered(group, statistics.symmetricBytes() + statistics.privateBytes());
            // The log of calls is memory of the host that the driver does not know.
            assertThat(driverBytes() + ranks * CallLog.BYTES)
                .isEqualTo(ofRanks.stream().mapToLong(bytes -> bytes).sum());
            assertThat(sizes.symmetricBytes() + sizes.privateBytes())
                .isEqualTo(Collections.max(ofRanks));
            group.barrier(LIMIT);
          }
        });
  }

  private static List<Long> gathered(Group group, long mine) {
    byte[] bytes = ByteBuffer.allocate(Long.BYTES).putLong(mine).array();
    return Stream.of(group.allGather(bytes, LIMIT))
        .map(each -> ByteBuffer.wrap(each).getLong())
        .toList();
  }

  @Test
  void operationsAddTheMemoryThatSizesNamesForTheirFirstUse() {
    for (Layout layout : new Layout[] {Layout.FLAT, Layout.EXPERT_MAJOR}) {
      OneRank.run(
          config("both", 1, WireName.AUTO, layout),
          rank -> {
            long before = driverBytes();
            BufferSizes sizes = ExpertBuffer.sizes(rank.buffer.config(), 1);
            long open = rank.buffer.statistics().privateBytes();
            use(rank, layout);
            assertThat(driverBytes() - before).isEqualTo(sizes.firstUseBytes());
            assertThat(rank.buffer.statistics().privateBytes() - open)
                .isEqualTo(sizes.firstUseBytes());
          });
    }
  }

  private static long driverBytes() {
    return FakeDriver.liveBytes(Kind.DEVICE_MEMORY, Kind.HOST_MEMORY, Kind.REGISTERED);
  }

  private static Tensor weightsOf(Dispatch received) {
    return received instanceof FlatDispatch flat
        ? flat.topkWeights()
        : ((GroupedDispatch) received).rowWeights();
  }

  /** Operations with tensors of the device, and one handle. */
  private static void use(OneRank rank, Layout layout) {
    rank.buffer.dispatchLayout(rank.batch.routing);
    Dispatch received = rank.dispatch(layout);
    CombineOptions options =
        CombineOptions.builder().topkWeights(weightsOf(received)).execution(rank.onStream).build();
    rank.buffer.combine(received.combineInput(DType.BF16), received.handle(), options);
    for (int half = 0; half < 2; half++) {
      LowLatencyDispatch sent =
          rank.buffer.lowLatencyDispatch(
              rank.batch.x, rank.batch.routing, rank.lowLatencyDispatching(false));
      rank.buffer.lowLatencyCombineBuffer(sent.handle());
      rank.buffer.lowLatencyCombine(
          sent.x(), rank.batch.routing, sent.handle(), rank.lowLatencyCombining());
    }
  }
}
