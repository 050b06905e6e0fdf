package org.ep4j.engine.host.buffer;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;
import static org.ep4j.engine.host.buffer.HighThroughputTest.config;

import java.time.Duration;
import java.util.function.UnaryOperator;
import org.ep4j.BufferStatistics;
import org.ep4j.ExpertBuffer;
import org.ep4j.config.BufferConfig;
import org.ep4j.config.EngineName;
import org.ep4j.config.HighThroughputConfig;
import org.ep4j.error.ConfigurationMismatchException;
import org.ep4j.error.EngineUnavailableException;
import org.ep4j.error.ErrorCode;
import org.ep4j.error.InvalidArgumentException;
import org.ep4j.group.GroupConfig;
import org.ep4j.group.TcpWorld;
import org.ep4j.group.ThreadRanks;
import org.ep4j.routing.ExpertPlacement;
import org.ep4j.tensor.DType;
import org.ep4j.wire.WireConfig;
import org.ep4j.wire.Wires;
import org.junit.jupiter.api.Test;

class OpenBufferTest {
  private static void mismatch(UnaryOperator<BufferConfig.Builder> change, String expected) {
    ThreadRanks.run(
        3,
        group -> {
          BufferConfig.Builder builder = config();
          BufferConfig mine = (group.rank() == 1 ? change.apply(builder) : builder).build();
          assertThatThrownBy(() -> ExpertBuffer.open(group, mine))
              .isInstanceOf(ConfigurationMismatchException.class)
              .hasMessage(
                  ErrorCode.CONFIGURATIONS_DIFFER.message(
                      "the ranks cannot open a buffer together: rank 1 differs in " + expected));
          // No rank keeps a half-open buffer: the same ranks open a valid one next.
          ExpertBuffer.open(group, config().build()).close();
        });
  }

  private static void limits(UnaryOperator<HighThroughputConfig.Builder> change, String expected) {
    mismatch(
        b -> b.highThroughput(change.apply(HighThroughputTest.LIMITS.toBuilder()).build()),
        "highThroughput." + expected);
  }

  @Test
  void ranksThatDisagreeGetRankAndField() {
    mismatch(b -> b.hidden(32), "hidden: 32 there, 16 on rank 0");
    mismatch(b -> b.topK(1), "topK: 1 there, 2 on rank 0");
    limits(b -> b.maxTokens(9), "maxTokens: 9 there, 8 on rank 0");
    limits(b -> b.rowDType(DType.FP32), "rowDType: FP32 there, BF16 on rank 0");
    limits(b -> b.maxReceiveRows(7), "maxReceiveRows: 7 there, the worst case on rank 0");
    limits(b -> b.expertAlignment(2), "expertAlignment: 2 there, 4 on rank 0");
    limits(b -> b.lostRanks(1), "lostRanks: 1 there, 0 on rank 0");
    mismatch(
        b -> b.hidden(128).lowLatency(2),
        "hidden: 128 there, 16 on rank 0"
            + "; rank 1 differs in lowLatency.maxTokens: 2 there, none on rank 0"
            + "; rank 1 differs in lowLatency.masking: false there, none on rank 0");
    mismatch(b -> b.timeout(Duration.ofSeconds(7)), "timeout: PT7S there, PT30S on rank 0");
    mismatch(b -> b.parallelism(3), "parallelism: 3 there, 0 on rank 0");
    mismatch(b -> b.engine("host"), "engine: host there, auto on rank 0");
    mismatch(
        b -> b.placement(ExpertPlacement.table(new int[] {0, 0, 2, 1}, 3)),
        "placement: expert 2 on rank 2 there, on rank 1 on rank 0");
  }

  /** The rank does not take part, and the others would wait for it until the timeout. */
  @Test
  void aRankThatCannotOpenTellsTheOthers() {
    ThreadRanks.run(
        3,
        group -> {
          BufferConfig.Builder builder = config();
          BufferConfig mine =
              group.rank() == 1
                  ? builder.placement(ExpertPlacement.blocks(4, 2)).build()
                  : builder.build();
          if (group.rank() == 1) {
            assertThatThrownBy(() -> ExpertBuffer.open(group, mine))
                .isInstanceOf(InvalidArgumentException.class)
                .hasMessageStartingWith(ErrorCode.PLACEMENT_OF_OTHER_GROUP.id());
          } else {
            assertThatThrownBy(() -> ExpertBuffer.open(group, mine))
                .isInstanceOf(EngineUnavailableException.class)
                .hasMessageStartingWith(
                    ErrorCode.RANK_OPEN_FAILED.message(
                        "rank 1: " + ErrorCode.PLACEMENT_OF_OTHER_GROUP.id()));
          }
          ExpertBuffer.open(group, config().build()).close();
        });
  }

  /** In nanoseconds it would overflow. */
  @Test
  void aTimeoutOfCenturiesIsATimeout() {
    Duration ages = Duration.ofSeconds(Long.MAX_VALUE);
    WireConfig wire = WireConfig.builder().wire("tcp").timeout(ages).build();
    ThreadRanks.run(
        2,
        group -> {
          try (ExpertBuffer buffer = ExpertBuffer.open(group, config().timeout(ages).build())) {
            buffer.barrier();
            buffer.reset();
          }
          Wires.open(group, wire).close();
        });
    assertThat(TcpWorld.config(2).toBuilder().livenessTimeout(ages).joinTimeout(ages).build())
        .extracting(GroupConfig::livenessTimeout)
        .isEqualTo(Duration.ofDays(365));
  }

  /** It has memory for the exchange of any ranks that are left. */
  @Test
  void theHostEngineIgnoresHowManyRanksOfANodeMayBeLost() {
    BufferConfig plain = config().engine(EngineName.HOST).build();
    BufferConfig declared =
        plain.toBuilder()
            .highThroughput(HighThroughputTest.LIMITS.toBuilder().lostRanks(5).build())
            .build();
    assertThat(ExpertBuffer.sizes(declared, 2)).isEqualTo(ExpertBuffer.sizes(plain, 2));
    ThreadRanks.run(2, group -> ExpertBuffer.open(group, declared).close());
  }

  @Test
  void allDifferencesAreListed() {
    ThreadRanks.run(
        2,
        group -> {
          BufferConfig mine =
              group.rank() == 0 ? config().build() : config().experts(6).highThroughput(3).build();
          assertThatThrownBy(() -> ExpertBuffer.open(group, mine))
              .isInstanceOf(ConfigurationMismatchException.class)
              .hasMessageContaining("rank 1 differs in experts: 6 there, 4 on rank 0")
              .hasMessageContaining(
                  "; rank 1 differs in highThroughput.maxTokens: 3 there, 8 on rank 0");
        });
  }

  @Test
  void engineWhoseModuleIsMissingIsNamedBesideTheOthers() {
    ThreadRanks.run(
        1,
        group ->
            assertThatThrownBy(
                    () -> ExpertBuffer.open(group, config().engine(EngineName.CUDA).build()))
                .isInstanceOf(EngineUnavailableException.class)
                .hasMessageContaining("engine 'cuda' is not on the module path")
                .hasMessageContaining("(add ep4j-cuda)")
                .hasMessageContaining("host: available"));
  }

  @Test
  void regionThatNoIndexCanReachIsRefused() {
    ThreadRanks.run(
        1,
        group ->
            assertThatThrownBy(
                    () ->
                        ExpertBuffer.open(
                            group,
                            config()
                                .highThroughput(
                                    HighThroughputTest.LIMITS.toBuilder()
                                        .maxTokens(Integer.MAX_VALUE)
                                        .build())
                                .build()))
                .isInstanceOf(InvalidArgumentException.class)
                .hasMessageStartingWith(ErrorCode.RECEIVE_REGION_TOO_LARGE.id())
                .hasMessageContaining("worst case of maxTokens"));
  }

  @Test
  void openBufferTellsWhatItIsAndReserves() {
    ThreadRanks.run(
        2,
        group -> {
          BufferConfig config = config().parallelism(3).build();
          try (ExpertBuffer buffer = ExpertBuffer.open(group, config)) {
            assertThat(buffer.engine()).isEqualTo("host");
            assertThat(buffer.rank()).isEqualTo(group.rank());
            assertThat(buffer.worldSize()).isEqualTo(2);
            assertThat(buffer.config().placement()).isEqualTo(ExpertPlacement.blocks(4, 2));
            assertThat(buffer.parallelism()).isEqualTo(3);
            buffer.setParallelism(0);
            assertThat(buffer.parallelism()).isPositive();
            assertThatThrownBy(() -> buffer.setParallelism(-1))
                .isInstanceOf(InvalidArgumentException.class)
                .hasMessageStartingWith(ErrorCode.BAD_SM_COUNT.message("sms = -1"));
            BufferStatistics statistics = buffer.statistics();
            assertThat(statistics.dispatches()).isZero();
            assertThat(statistics.symmetricBytes())
                .isEqualTo(ExpertBuffer.sizes(config, 2).symmetricBytes());
            assertThat(statistics.privateBytes())
                .isEqualTo(ExpertBuffer.sizes(config, 2).privateBytes());
          }
        });
  }

  @Test
  void configOfAnOpenBufferHoldsWhatTheEngineChose() {
    ThreadRanks.run(
        3,
        group -> {
          try (ExpertBuffer buffer = ExpertBuffer.open(group, config().build())) {
            BufferConfig settled = buffer.config();
            assertThat(settled.engine()).isEqualTo("host");
            assertThat(settled.ranksPerNode()).isEqualTo(3);
            assertThat(settled.parallelism()).isEqualTo(buffer.parallelism()).isPositive();
            // The worst case: 8 tokens of 3 ranks with both choices, 2 experts aligned to 4 rows.
            assertThat(settled.highThroughput().orElseThrow().maxReceiveRows())
                .hasValue(3 * 8 * 2 + 2 * 3);
            ExpertBuffer.open(group, settled).close();
          }
          BufferConfig nodes = config().ranksPerNode(2).build();
          try (ExpertBuffer buffer = ExpertBuffer.open(group, nodes)) {
            assertThat(buffer.config().ranksPerNode()).isEqualTo(2);
            assertThat(buffer.config().wire()).isEqualTo("inproc");
          }
        });
  }

  @Test
  void oneRankNeedsNoOther() {
    ThreadRanks.run(
        1,
        group -> {
          try (ExpertBuffer buffer = ExpertBuffer.open(group, config().build())) {
            assertThat(
                    buffer
                        .dispatch(HighThroughputTest.rows(0), HighThroughputTest.routing(0))
                        .rows())
                .isEqualTo(3);
            buffer.barrier();
            buffer.reset();
          }
        });
  }
}
