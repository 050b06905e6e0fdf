package org.ep4j.cuda.engine;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import java.lang.foreign.Arena;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import org.ep4j.ExpertBuffer;
import org.ep4j.LowLatencyCombineOptions;
import org.ep4j.LowLatencyDispatch;
import org.ep4j.LowLatencyDispatchOptions;
import org.ep4j.config.BufferConfig;
import org.ep4j.config.LowLatencyConfig;
import org.ep4j.cuda.driver.Gpu;
import org.ep4j.error.InvalidArgumentException;
import org.ep4j.group.ThreadRanks;
import org.ep4j.routing.ExpertPlacement;
import org.ep4j.routing.Routing;
import org.ep4j.tensor.DType;
import org.ep4j.tensor.RowFormat;
import org.ep4j.tensor.Tensor;
import org.ep4j.verify.Inputs;
import org.ep4j.verify.Inputs.Part;
import org.ep4j.verify.LowLatencyOracle;
import org.ep4j.verify.RoutingGenerator;
import org.ep4j.verify.RoutingKind;
import org.ep4j.verify.WorldRouting;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.MethodSource;

/**
 * Ranks that miss the deadline are masked and admitted again; the sums are those of the other
 * ranks.
 */
class MaskedRanksTest {
  private static final int RANKS = 3;
  private static final int SILENT = 1;
  private static final int TOKENS = 24;
  private static final int EXPERTS = 12;
  private static final Duration TIMEOUT = Duration.ofSeconds(30);
  private static final LowLatencyDispatchOptions BF16 =
      LowLatencyDispatchOptions.builder().format(RowFormat.BF16).build();

  private static BufferConfig config(String wire) {
    BufferConfig.Builder config =
        BufferConfig.builder()
            .engine("cuda")
            .hidden(Batch.HIDDEN)
            .topK(Batch.TOP_K)
            .experts(EXPERTS)
            .lowLatency(LowLatencyConfig.builder().maxTokens(TOKENS).masking(true).build())
            .timeout(Duration.ofMillis(1500));
    return wire.equals("none") ? config.build() : config.ranksPerNode(2).wire(wire).build();
  }

  /** With a wire, nodes of two ranks and of one. */
  @ParameterizedTest
  @MethodSource("org.ep4j.conformance.world.NodeWires#orNone")
  void aSilentRankIsMaskedByTheKernelAndAdmittedAgain(String wire) {
    Gpu.require(1);
    ThreadRanks.run(
        RANKS,
        group -> {
          boolean[] nobody = new boolean[RANKS];
          boolean[] masked = new boolean[RANKS];
          masked[SILENT] = true;
          try (ExpertBuffer buffer = ExpertBuffer.open(group, config(wire))) {
            operate(buffer, 1, nobody);
            group.barrier(TIMEOUT);
            if (buffer.rank() != SILENT) {
              operate(buffer, 2, masked);
              assertThat(buffer.isMasked(SILENT)).isTrue();
              operate(buffer, 3, masked);
            }
            group.barrier(TIMEOUT);
            buffer.cleanMask();
            assertThat(buffer.isMasked(SILENT)).isFalse();
            group.barrier(TIMEOUT);
            for (int seed = 4; seed < 8; seed++) {
              operate(buffer, seed, nobody);
            }
            group.barrier(TIMEOUT);
          }
        });
  }

  /** The kernel checks the id when it reads it. */
  @Test
  void idThatWasNotDispatchedIsReported() {
    Gpu.require(1);
    ThreadRanks.run(
        1,
        group -> {
          try (Arena arena = Arena.ofShared();
              ExpertBuffer buffer = ExpertBuffer.open(group, config("none"))) {
            Routing routing = routing(1, 0, arena);
            LowLatencyDispatch dispatch =
                buffer.lowLatencyDispatch(rows(1, 0, arena), routing, BF16);
            Tensor ids = routing.topkIdx();
            long other = (ids.getLong(5) + 1) % EXPERTS;
            ids.segment().set(java.lang.foreign.ValueLayout.JAVA_LONG_UNALIGNED, 5 * 8, other);
            assertThatThrownBy(
                    () ->
                        buffer.lowLatencyCombine(
                            dispatch.x(),
                            routing,
                            dispatch.handle(),
                            LowLatencyCombineOptions.DEFAULT))
                .isInstanceOf(InvalidArgumentException.class)
                .hasMessageContaining("topkIdx[1, 1]")
                .hasMessageContaining("as dispatched");
          }
        });
  }

  private static Routing routing(long seed, int rank, Arena arena) {
    return new RoutingGenerator(RoutingKind.UNIFORM, seed, EXPERTS, Batch.TOP_K)
        .routing(rank, TOKENS, arena);
  }

  private static Tensor rows(long seed, int rank, Arena arena) {
    return new Inputs(seed).tensor(Part.PAYLOAD, DType.BF16, rank, TOKENS, Batch.HIDDEN, arena);
  }

  private static void operate(ExpertBuffer buffer, long seed, boolean[] masked) {
    int rank = buffer.rank();
    ExpertPlacement placement = ExpertPlacement.blocks(EXPERTS, RANKS);
    try (Arena arena = Arena.ofShared()) {
      List<Routing> routings = new ArrayList<>();
      for (int r = 0; r < RANKS; r++) {
        routings.add(routing(seed, r, arena));
      }
      WorldRouting world = WorldRouting.of(placement, routings);
      LowLatencyOracle oracle = new LowLatencyOracle(world, TOKENS, Batch.HIDDEN, masked);
      Inputs inputs = new Inputs(seed);
      LowLatencyDispatch dispatch =
          buffer.lowLatencyDispatch(rows(seed, rank, arena), routings.get(rank), BF16);
      oracle.checkDispatch(
          rank, dispatch, inputs.rows(Part.PAYLOAD, DType.BF16, Batch.HIDDEN), BF16);
      int local = placement.localExperts(rank);
      long slots = (long) local * RANKS * TOKENS;
      Tensor y = inputs.tensor(Part.EXPERT_OUTPUT, DType.BF16, rank, slots, Batch.HIDDEN, arena);
      Tensor shaped = Tensor.of(y.segment(), DType.BF16, local, slots / local, Batch.HIDDEN);
      Tensor sums =
          buffer
              .lowLatencyCombine(
                  shaped, routings.get(rank), dispatch.handle(), LowLatencyCombineOptions.DEFAULT)
              .x();
      oracle.checkCombine(
          rank,
          sums,
          inputs.rows(Part.EXPERT_OUTPUT, DType.BF16, Batch.HIDDEN),
          world,
          LowLatencyCombineOptions.DEFAULT);
    }
  }
}
