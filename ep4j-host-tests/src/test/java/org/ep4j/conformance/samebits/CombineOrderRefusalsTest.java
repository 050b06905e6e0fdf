package org.ep4j.conformance.samebits;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import java.time.Duration;
import org.ep4j.CombineOptions;
import org.ep4j.CombineOrder;
import org.ep4j.ExpertBuffer;
import org.ep4j.FlatDispatch;
import org.ep4j.GroupedDispatch;
import org.ep4j.LowLatencyCombineOptions;
import org.ep4j.LowLatencyDispatchOptions;
import org.ep4j.RankMajorDispatch;
import org.ep4j.config.BufferConfig;
import org.ep4j.config.EngineName;
import org.ep4j.config.HighThroughputConfig;
import org.ep4j.config.Layout;
import org.ep4j.error.ConfigurationMismatchException;
import org.ep4j.error.InvalidArgumentException;
import org.ep4j.group.ThreadRanks;
import org.ep4j.routing.Routing;
import org.ep4j.tensor.DType;
import org.ep4j.tensor.Tensor;
import org.junit.jupiter.api.Test;

class CombineOrderRefusalsTest {
  private static final int HIDDEN = 128;
  private static final CombineOptions BY_EXPERTS =
      CombineOptions.builder().order(CombineOrder.EXPERT).build();
  private static final LowLatencyCombineOptions LOW_LATENCY_BY_EXPERTS =
      LowLatencyCombineOptions.builder().order(CombineOrder.EXPERT).build();

  @Test
  void ordersOfTheOtherKindAreRefused() {
    assertThatThrownBy(() -> CombineOptions.builder().order(CombineOrder.CHOICE).build())
        .isInstanceOf(InvalidArgumentException.class)
        .hasMessageStartingWith("EP4J-1435: order = CHOICE");
    assertThatThrownBy(() -> LowLatencyCombineOptions.builder().order(CombineOrder.RANK).build())
        .isInstanceOf(InvalidArgumentException.class)
        .hasMessageStartingWith("EP4J-1435: order = RANK");
    assertThatThrownBy(
            () ->
                LowLatencyCombineOptions.builder()
                    .order(CombineOrder.EXPERT)
                    .partialRounding(true)
                    .build())
        .isInstanceOf(InvalidArgumentException.class)
        .hasMessageContaining("CHOICE with partialRounding");
  }

  @Test
  void rowsThatTheCallerHasSummedAreRefused() {
    ThreadRanks.run(
        1,
        group -> {
          try (ExpertBuffer buffer = ExpertBuffer.open(group, config())) {
            Tensor x = Tensor.ofBf16(new short[HIDDEN], 1, HIDDEN);
            FlatDispatch flat = buffer.dispatch(x, routing());
            assertThatThrownBy(() -> buffer.combine(flat.x(), flat.handle(), BY_EXPERTS))
                .isInstanceOf(InvalidArgumentException.class)
                .hasMessageStartingWith("EP4J-1422: order = EXPERT; it must be RANK for FLAT rows");
            RankMajorDispatch byRank =
                buffer.lowLatencyDispatchByRank(x, routing(), LowLatencyDispatchOptions.DEFAULT);
            assertThatThrownBy(
                    () ->
                        buffer.lowLatencyCombine(
                            buffer.lowLatencyCombineBuffer(byRank.handle()),
                            routing(),
                            byRank.handle(),
                            LOW_LATENCY_BY_EXPERTS))
                .isInstanceOf(InvalidArgumentException.class)
                .hasMessageStartingWith("EP4J-1422: order = EXPERT; it must be CHOICE");
          }
        });
  }

  @Test
  void ranksThatDisagreeAreNamed() {
    ThreadRanks.run(
        2,
        group -> {
          try (ExpertBuffer buffer = ExpertBuffer.open(group, config())) {
            Tensor x = Tensor.ofBf16(new short[HIDDEN], 1, HIDDEN);
            GroupedDispatch received = buffer.dispatchGrouped(x, routing());
            CombineOptions options = group.rank() == 1 ? BY_EXPERTS : CombineOptions.DEFAULT;
            assertThatThrownBy(() -> buffer.combine(received.x(), received.handle(), options))
                .isInstanceOf(ConfigurationMismatchException.class)
                .hasMessageContaining("order")
                .hasMessageContaining("EXPERT");
          }
        });
  }

  @Test
  void logicalIdsHaveTheShapeOfTheIds() {
    Tensor ids = Tensor.of(new long[] {0, 1}, 1, 2);
    assertThatThrownBy(() -> new Routing(ids, null, Tensor.of(new long[] {0, 1}, 2, 1)))
        .isInstanceOf(InvalidArgumentException.class)
        .hasMessageContaining("logicalIdx");
    assertThat(new Routing(ids, null).logicalIdx()).isNull();
  }

  private static Routing routing() {
    return Routing.of(new long[] {0, 1}, new float[] {1, 1}, 2);
  }

  private static BufferConfig config() {
    return BufferConfig.builder()
        .engine(EngineName.HOST)
        .hidden(HIDDEN)
        .topK(2)
        .experts(2)
        .timeout(Duration.ofSeconds(20))
        .highThroughput(
            HighThroughputConfig.builder()
                .maxTokens(1)
                .rowDType(DType.BF16)
                .layouts(Layout.FLAT, Layout.EXPERT_MAJOR)
                .build())
        .lowLatency(1)
        .build();
  }
}
