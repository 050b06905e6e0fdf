package org.ep4j.conformance.faults;

import static org.assertj.core.api.Assertions.assertThat;

import java.time.Duration;
import java.util.Arrays;
import java.util.concurrent.atomic.AtomicInteger;
import org.ep4j.DispatchHandle;
import org.ep4j.ExpertBuffer;
import org.ep4j.FlatDispatch;
import org.ep4j.LowLatencyCombine;
import org.ep4j.LowLatencyCombineOptions;
import org.ep4j.LowLatencyDispatch;
import org.ep4j.LowLatencyDispatchOptions;
import org.ep4j.config.BufferConfig;
import org.ep4j.conformance.wire.FaultPlan;
import org.ep4j.error.PeerTimeoutException;
import org.ep4j.group.ThreadRanks;
import org.ep4j.routing.Routing;
import org.ep4j.tensor.DType;
import org.ep4j.tensor.RowFormat;
import org.ep4j.tensor.Tensor;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.EnumSource;

/**
 * The only path between two ranks is cut, and the wire of one of them notices it: both get the
 * cause at once, and continue after a reset. No third rank could pass a notice on.
 */
class CutPathTest {
  private static final int TOKENS = 16;
  private static final int HIDDEN = 128;
  private static final int MAX_ROUNDS = 1_000;

  /** A rank that waits for its timeout exceeds the limit of the test. */
  private static final Duration LONG = Duration.ofMinutes(10);

  private static final Duration LIMIT = Duration.ofMinutes(1);

  /** Operations that send all tokens to the other rank, and check what comes back. */
  enum Kind {
    HIGH_THROUGHPUT,
    LOW_LATENCY;

    void run(ExpertBuffer buffer) {
      switch (this) {
        case HIGH_THROUGHPUT -> highThroughput(buffer);
        case LOW_LATENCY -> lowLatency(buffer);
      }
    }
  }

  @AfterEach
  void legalAgain() {
    FaultyWireProvider.planLegal();
  }

  @ParameterizedTest
  @EnumSource
  void bothRanksGetTheCauseOfACutPathAndContinueAfterAReset(Kind kind) {
    for (int end = 0; end < 2; end++) {
      int notices = end;
      AtomicInteger opened = new AtomicInteger();
      FaultyWireProvider.plan(
          rank -> {
            FaultPlan plan = FaultPlan.legal(rank);
            return opened.getAndIncrement() < 2 && rank == notices
                ? plan.dropping(1 - rank, 400)
                : plan;
          });
      ThreadRanks.run(
          2,
          LIMIT,
          group -> {
            BufferConfig config =
                BufferConfig.builder()
                    .engine("host")
                    .hidden(HIDDEN)
                    .topK(1)
                    .experts(2)
                    .highThroughput(TOKENS)
                    .lowLatency(TOKENS)
                    .ranksPerNode(1)
                    .wire(FaultyWireProvider.NAME)
                    .timeout(LONG)
                    .build();
            try (ExpertBuffer buffer = ExpertBuffer.open(group, config)) {
              PeerTimeoutException error = untilCut(buffer, kind);
              assertThat(error)
                  .hasMessageContaining("rank " + (1 - group.rank()) + " is unreachable")
                  .hasMessageContaining("dropped at step 400");
              assertThat(error.peer()).isEqualTo(1 - group.rank());
              buffer.reset();
              kind.run(buffer);
            }
          });
    }
  }

  private static PeerTimeoutException untilCut(ExpertBuffer buffer, Kind kind) {
    for (int i = 0; i < MAX_ROUNDS; i++) {
      try {
        kind.run(buffer);
      } catch (PeerTimeoutException e) {
        return e;
      }
    }
    throw new AssertionError("rank " + buffer.rank() + " got no error");
  }

  private static void highThroughput(ExpertBuffer buffer) {
    FlatDispatch dispatch = buffer.dispatch(rows(buffer.rank()), toTheOther(buffer));
    assertThat(dispatch.rows()).isEqualTo(TOKENS);
    assertThat(dispatch.x().toFloatArray()).containsOnly(2f - buffer.rank());
    try (DispatchHandle handle = dispatch.handle()) {
      assertThat(buffer.combine(dispatch.x(), handle).x().toFloatArray())
          .containsOnly(1f + buffer.rank());
    }
  }

  private static void lowLatency(ExpertBuffer buffer) {
    Routing routing = toTheOther(buffer);
    LowLatencyDispatch dispatch =
        buffer.lowLatencyDispatch(
            rows(buffer.rank()),
            routing,
            LowLatencyDispatchOptions.builder().format(RowFormat.BF16).build());
    LowLatencyCombine combine =
        buffer.lowLatencyCombine(
            dispatch.x(), routing, dispatch.handle(), LowLatencyCombineOptions.DEFAULT);
    assertThat(combine.x().toFloatArray()).containsOnly(1f + buffer.rank());
  }

  private static Tensor rows(int rank) {
    float[] values = new float[TOKENS * HIDDEN];
    Arrays.fill(values, 1 + rank);
    return Tensor.fromFloats(values, DType.BF16, TOKENS, HIDDEN);
  }

  private static Routing toTheOther(ExpertBuffer buffer) {
    long[] experts = new long[TOKENS];
    Arrays.fill(experts, 1 - buffer.rank());
    float[] weights = new float[TOKENS];
    Arrays.fill(weights, 1);
    return Routing.of(experts, weights, 1);
  }
}
