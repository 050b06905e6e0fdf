package org.ep4j.config;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import java.time.Duration;
import org.assertj.core.api.ThrowableAssert.ThrowingCallable;
import org.ep4j.error.ErrorCode;
import org.ep4j.error.InvalidArgumentException;
import org.ep4j.routing.ExpertPlacement;
import org.ep4j.tensor.DType;
import org.ep4j.wire.WireConfig;
import org.junit.jupiter.api.Test;

class BufferConfigTest {
  private static BufferConfig.Builder shape() {
    return BufferConfig.builder().hidden(128).topK(2).experts(4);
  }

  private static HighThroughputConfig.Builder limits() {
    return HighThroughputConfig.builder().maxTokens(8);
  }

  private static void refused(ErrorCode code, String argument, ThrowingCallable call) {
    assertThatThrownBy(call)
        .isInstanceOfSatisfying(
            InvalidArgumentException.class,
            e -> {
              assertThat(e.errorCode()).isEqualTo(code);
              assertThat(e.argument()).isEqualTo(argument);
            });
  }

  @Test
  void numberIsShortForAPartWithDefaults() {
    assertThat(shape().highThroughput(8).lowLatency(4).build())
        .isEqualTo(
            shape()
                .highThroughput(limits().build())
                .lowLatency(LowLatencyConfig.builder().maxTokens(4).build())
                .build());
    BufferConfig decode = shape().lowLatency(4).build();
    assertThat(decode.highThroughput()).isEmpty();
    assertThat(decode.lowLatency()).contains(LowLatencyConfig.of(4));
    HighThroughputConfig defaults = HighThroughputConfig.of(8);
    assertThat(defaults.rowDType()).isEqualTo(DType.BF16);
    assertThat(defaults.layouts()).containsExactly(Layout.FLAT);
    assertThat(defaults.maxReceiveRows()).isEmpty();
    assertThat(defaults.expertAlignment()).isEqualTo(128);
    assertThat(defaults.lostRanks()).isZero();
    assertThat(LowLatencyConfig.of(4).masking()).isFalse();
  }

  @Test
  void toBuilderKeepsEveryValue() {
    BufferConfig config =
        shape()
            .placement(ExpertPlacement.blocks(4, 2))
            .highThroughput(
                limits()
                    .rowDType(DType.FP32)
                    .layouts(Layout.EXPERT_MAJOR)
                    .maxReceiveRows(99)
                    .expertAlignment(16)
                    .lostRanks(3)
                    .build())
            .lowLatency(LowLatencyConfig.builder().maxTokens(4).masking(true).build())
            .timeout(Duration.ofSeconds(3))
            .parallelism(7)
            .engine("host")
            .ranksPerNode(2)
            .wire("tcp")
            .backend("nccl")
            .build();
    BufferConfig copy = config.toBuilder().build();
    assertThat(copy).isEqualTo(config).hasSameHashCodeAs(config).hasToString(config.toString());
    assertThat(config.toString())
        .contains("hidden=128", "topK=2", "experts=4", "placement=", "timeout=PT3S")
        .contains(
            "HighThroughputConfig[maxTokens=8, rowDType=FP32, layouts=[EXPERT_MAJOR]",
            "maxReceiveRows=99")
        .contains(
            "expertAlignment=16", "lostRanks=3", "LowLatencyConfig[maxTokens=4, masking=true]")
        .contains("parallelism=7", "engine=host", "ranksPerNode=2", "wire=tcp", "backend=nccl");
    HighThroughputConfig part = config.highThroughput().orElseThrow();
    assertThat(part.toBuilder().build()).isEqualTo(part).hasSameHashCodeAs(part);
    assertThat(part.toBuilder().maxReceiveRows(98).build()).isNotEqualTo(part);
    assertThat(part.toBuilder().lostRanks(2).build()).isNotEqualTo(part);
    LowLatencyConfig latency = config.lowLatency().orElseThrow();
    assertThat(latency.toBuilder().build()).isEqualTo(latency).hasSameHashCodeAs(latency);
    assertThat(latency.toBuilder().masking(false).build()).isNotEqualTo(latency);
    assertThat(config.toBuilder().timeout(Duration.ofSeconds(4)).build()).isNotEqualTo(config);
    assertThat(config.toBuilder().lowLatency(4).build()).isNotEqualTo(config);
  }

  @Test
  void valuesOutOfRangeAreRefused() {
    refused(ErrorCode.TOKEN_LIMIT, "highThroughput", () -> shape().build());
    refused(ErrorCode.TOKEN_LIMIT, "highThroughput.maxTokens", () -> shape().highThroughput(0));
    refused(ErrorCode.TOKEN_LIMIT, "lowLatency.maxTokens", () -> shape().lowLatency(-1));
    refused(
        ErrorCode.TOKEN_LIMIT, "highThroughput.maxReceiveRows", () -> limits().maxReceiveRows(0));
    refused(ErrorCode.BUFFER_SETTING, "highThroughput.layouts", () -> limits().layouts());
    refused(
        ErrorCode.BUFFER_SETTING,
        "highThroughput.layouts",
        () -> limits().layouts(Layout.FLAT, Layout.RANK_MAJOR));
    refused(
        ErrorCode.BUFFER_SETTING, "highThroughput.lostRanks", () -> limits().lostRanks(-1).build());
    refused(
        ErrorCode.EXPERT_ALIGNMENT,
        "highThroughput.expertAlignment",
        () -> limits().expertAlignment(0).build());
    refused(
        ErrorCode.ROW_DTYPE,
        "highThroughput.rowDType",
        () -> limits().rowDType(DType.INT32).build());
    refused(ErrorCode.HIDDEN_SIZE, "hidden", () -> shape().hidden(0).lowLatency(4).build());
    refused(ErrorCode.HIDDEN_SIZE, "hidden", () -> shape().hidden(12).highThroughput(4).build());
    refused(ErrorCode.HIDDEN_SIZE, "hidden", () -> shape().hidden(64).lowLatency(4).build());
    refused(ErrorCode.TOP_K, "topK", () -> shape().topK(0).lowLatency(4).build());
    refused(ErrorCode.TOP_K, "topK", () -> shape().topK(5).lowLatency(4).build());
    refused(ErrorCode.EXPERT_PLACEMENT, "experts", () -> shape().experts(0).lowLatency(4).build());
    BufferConfig.Builder valid = shape().highThroughput(4);
    refused(ErrorCode.BUFFER_SETTING, "timeout", () -> valid.timeout(Duration.ZERO).build());
    valid.timeout(Duration.ofSeconds(1));
    refused(ErrorCode.BUFFER_SETTING, "parallelism", () -> valid.parallelism(-1).build());
    valid.parallelism(0);
    refused(ErrorCode.BUFFER_SETTING, "ranksPerNode", () -> valid.ranksPerNode(-1).build());
  }

  @Test
  void unknownNamesAreRefusedWhenSet() {
    BufferConfig.Builder builder = shape();
    for (String bad : new String[] {"", " ", "quantum", "HOST", "a b", "x=y"}) {
      refused(ErrorCode.NAME_UNKNOWN, "engine", () -> builder.engine(bad));
      refused(ErrorCode.NAME_UNKNOWN, "wire", () -> builder.wire(bad));
      refused(ErrorCode.NAME_UNKNOWN, "backend", () -> builder.backend(bad));
      refused(ErrorCode.NAME_UNKNOWN, "wire", () -> WireConfig.builder().wire(bad));
    }
    assertThatThrownBy(() -> builder.wire("tcpp"))
        .hasMessageContaining(
            "wire = 'tcpp'; it must be one of auto, inproc, shm, tcp, verbs, ucx, nccl, staged,"
                + " backend: correct the name");
    for (String name : EngineName.ALL) {
      assertThat(builder.engine(name)).isSameAs(builder);
    }
    for (String name : WireName.ALL) {
      assertThat(builder.wire(name)).isSameAs(builder);
      assertThat(WireConfig.builder().wire(name)).isNotNull();
    }
    for (String name : BackendName.ALL) {
      assertThat(builder.backend(name)).isSameAs(builder);
    }
  }

  @Test
  void hiddenMustFitTheRowsOfHighThroughputOnlyThere() {
    DType narrow = DType.NVFP4;
    assertThat(shape().hidden(32).highThroughput(limits().rowDType(narrow).build()).build())
        .isNotNull();
    refused(
        ErrorCode.HIDDEN_SIZE,
        "hidden",
        () -> shape().hidden(16).highThroughput(limits().rowDType(narrow).build()).build());
  }
}
