package org.ep4j.engine.host.buffer;

import static org.assertj.core.api.Assertions.assertThat;
import static org.ep4j.engine.host.buffer.HighThroughputTest.routing;
import static org.ep4j.engine.host.buffer.HighThroughputTest.rows;
import static org.ep4j.engine.host.buffer.Tensors.heads;

import org.ep4j.ExpertBuffer;
import org.ep4j.FlatDispatch;
import org.ep4j.config.BufferConfig;
import org.ep4j.config.HighThroughputConfig;
import org.ep4j.config.Layout;
import org.ep4j.group.Group;
import org.ep4j.group.ThreadRanks;
import org.ep4j.tensor.DType;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.EnumSource;

class WarmUpTest {
  @ParameterizedTest
  @EnumSource(
      value = DType.class,
      names = {"BF16", "FP16", "FP32", "FP8_E4M3", "NVFP4"})
  void everyConfiguredOperationHasRun(DType rows) {
    BufferConfig config =
        BufferConfig.builder()
            .engine("host")
            .hidden(128)
            .topK(3)
            .experts(4)
            .highThroughput(
                HighThroughputConfig.builder()
                    .maxTokens(40)
                    .rowDType(rows)
                    .maxReceiveRows(5) // fewer than the tokens of a warm-up
                    .build())
            .lowLatency(2)
            .build();
    ThreadRanks.run(2, group -> assertOperations(group, config, true, true));
  }

  @ParameterizedTest
  @EnumSource(
      value = DType.class,
      names = {"BF16", "FP32"})
  void operationsThatAreNotConfiguredAreLeftOut(DType rows) {
    BufferConfig prefill =
        BufferConfig.builder()
            .engine("host")
            .topK(2)
            .experts(4)
            .hidden(rows == DType.FP32 ? 4 : 8)
            .highThroughput(HighThroughputConfig.builder().maxTokens(1).rowDType(rows).build())
            .build();
    BufferConfig decode =
        BufferConfig.builder().engine("host").topK(2).experts(4).hidden(128).lowLatency(20).build();
    ThreadRanks.run(2, group -> assertOperations(group, prefill, true, false));
    ThreadRanks.run(2, group -> assertOperations(group, decode, false, true));
  }

  /** Rows of results do not fit in the place of the received ones. */
  @ParameterizedTest
  @EnumSource(
      value = DType.class,
      names = {"FP8_E4M3", "NVFP4"})
  void combinesThatABufferHasNoMemoryForAreLeftOut(DType rows) {
    BufferConfig config =
        BufferConfig.builder()
            .engine("host")
            .hidden(128)
            .topK(2)
            .experts(4)
            .highThroughput(
                HighThroughputConfig.builder()
                    .maxTokens(4)
                    .rowDType(rows)
                    .layouts(Layout.FLAT)
                    .combineInPlace(true)
                    .build())
            .build();
    ThreadRanks.run(
        2,
        group -> {
          try (ExpertBuffer buffer = ExpertBuffer.open(group, config)) {
            buffer.warmUp();
            assertThat(buffer.statistics().dispatches()).isPositive();
            assertThat(buffer.statistics().combines()).isZero();
          }
        });
  }

  private static void assertOperations(
      Group group, BufferConfig config, boolean highThroughput, boolean lowLatency) {
    try (ExpertBuffer buffer = ExpertBuffer.open(group, config)) {
      buffer.warmUp();
      assertThat(buffer.statistics().dispatches() > 0).isEqualTo(highThroughput);
      assertThat(buffer.statistics().combines() > 0).isEqualTo(highThroughput);
      assertThat(buffer.statistics().lowLatencyDispatches() > 0).isEqualTo(lowLatency);
      assertThat(buffer.statistics().lowLatencyCombines() > 0).isEqualTo(lowLatency);
    }
  }

  @Test
  void operationsAfterAWarmUpAreRight() {
    ThreadRanks.run(
        2,
        group -> {
          try (ExpertBuffer buffer =
              ExpertBuffer.open(group, HighThroughputTest.config().build())) {
            buffer.warmUp();
            FlatDispatch d = buffer.dispatch(rows(group.rank()), routing(group.rank()));
            assertThat(heads(buffer.combine(d.x(), d.handle()).x()))
                .containsExactly(group.rank() == 0 ? new float[] {2, 2, 3} : new float[] {11, 12});
          }
        });
  }
}
