package org.ep4j.conformance.faults;

import static org.junit.jupiter.api.Assertions.assertTrue;

import java.lang.foreign.Arena;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.SplittableRandom;
import java.util.concurrent.atomic.AtomicInteger;
import org.ep4j.Combine;
import org.ep4j.CombineOptions;
import org.ep4j.Dispatch;
import org.ep4j.DispatchHandle;
import org.ep4j.DispatchOptions;
import org.ep4j.ExpertBuffer;
import org.ep4j.Tokens;
import org.ep4j.config.BufferConfig;
import org.ep4j.config.HighThroughputConfig;
import org.ep4j.config.Layout;
import org.ep4j.conformance.wire.FaultPlan;
import org.ep4j.conformance.world.TestScale;
import org.ep4j.error.PeerTimeoutException;
import org.ep4j.group.Group;
import org.ep4j.group.ThreadRanks;
import org.ep4j.routing.ExpertPlacement;
import org.ep4j.routing.Routing;
import org.ep4j.tensor.DType;
import org.ep4j.tensor.Tensor;
import org.ep4j.verify.CombineOracle;
import org.ep4j.verify.CombineOracle.Terms;
import org.ep4j.verify.HighThroughputOracle;
import org.ep4j.verify.HighThroughputOracle.Payload;
import org.ep4j.verify.Inputs;
import org.ep4j.verify.Inputs.Part;
import org.ep4j.verify.RoutingGenerator;
import org.ep4j.verify.RoutingKind;
import org.ep4j.verify.WorldRouting;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;

/**
 * One rank loses its lanes to a rank of another node at any step: no rank gets wrong bytes, every
 * rank gets an error at once that names one of the two, and after a reset all ranks continue.
 */
class LostLanesTest {
  private static final int RANKS = 4;
  private static final int RANKS_PER_NODE = 2;
  private static final int HIDDEN = 256;
  private static final int TOP_K = 4;
  private static final int EXPERTS = 12;
  private static final int TOKENS = 60;
  private static final int MAX_STEPS = 600;

  /** Longer than a campaign may take: no rank may wait that long. */
  private static final Duration LONG = Duration.ofMinutes(10);

  private static final Duration LIMIT = Duration.ofMinutes(1);
  private static final ExpertPlacement PLACEMENT = ExpertPlacement.blocks(EXPERTS, RANKS);

  /** Without rounding of partial sums nodes do not change the bits. */
  private static final CombineOptions EXACT =
      CombineOptions.builder().partialRounding(false).build();

  @AfterEach
  void legalAgain() {
    FaultyWireProvider.planLegal();
  }

  @Test
  void aLaneLostAtAnyStepIsReportedAndAResetHeals() {
    long seed = TestScale.seed();
    int campaigns = Integer.getInteger("ep4j.campaigns", TestScale.part(8));
    System.out.printf("LostLanesTest: -Dep4j.seed=%d -Dep4j.campaigns=%d%n", seed, campaigns);
    SplittableRandom random = new SplittableRandom(seed);
    for (int i = 0; i < campaigns; i++) {
      int unlucky = random.nextInt(RANKS);

      int node = unlucky / RANKS_PER_NODE;
      int distance = (1 - node) * RANKS_PER_NODE + random.nextInt(RANKS_PER_NODE);
      long step = 1 + random.nextLong(MAX_STEPS);
      long faults = random.nextLong();
      AtomicInteger opened = new AtomicInteger();
      FaultyWireProvider.plan(
          rank -> {
            FaultPlan plan = FaultPlan.legal(faults + rank);
            // Only the first connection fails, not the one of the reset.
            return opened.getAndIncrement() < RANKS && rank == unlucky
                ? plan.dropping(distance, step)
                : plan;
          });
      ThreadRanks.run(RANKS, LIMIT, group -> runUntilLost(group, List.of(distance, unlucky)));
    }
  }

  private static void runUntilLost(Group group, List<Integer> ends) {
    BufferConfig config =
        BufferConfig.builder()
            .engine("host")
            .hidden(HIDDEN)
            .topK(TOP_K)
            .placement(PLACEMENT)
            .highThroughput(
                HighThroughputConfig.builder()
                    .maxTokens(TOKENS)
                    .layouts(Layout.FLAT, Layout.EXPERT_MAJOR)
                    .build())
            .ranksPerNode(RANKS_PER_NODE)
            .wire(FaultyWireProvider.NAME)
            .timeout(LONG)
            .build();
    try (ExpertBuffer buffer = ExpertBuffer.open(group, config)) {
      boolean reported = false;
      for (long round = 0; round < 10 * MAX_STEPS && !reported; round++) {
        try {
          operate(buffer, round);
        } catch (PeerTimeoutException e) {
          reported = true;
          // The two ends hear of it at about the same time, and the others from either.
          assertTrue(ends.contains(e.peer()) && e.peer() != group.rank(), e.getMessage());
        }
      }
      assertTrue(reported, "rank " + group.rank() + " got no error");
      buffer.reset();
      for (long round = 0; round < 3; round++) {
        operate(buffer, round);
      }
    }
  }

  private static void operate(ExpertBuffer buffer, long seed) {
    int rank = buffer.rank();
    Layout layout = seed % 2 == 0 ? Layout.FLAT : Layout.EXPERT_MAJOR;
    try (Arena arena = Arena.ofShared()) {
      RoutingGenerator generator = new RoutingGenerator(RoutingKind.UNIFORM, seed, EXPERTS, TOP_K);
      List<Routing> routings = new ArrayList<>();
      for (int r = 0; r < RANKS; r++) {
        routings.add(generator.routing(r, TOKENS, arena));
      }
      WorldRouting world = WorldRouting.of(PLACEMENT, routings);
      Inputs inputs = new Inputs(seed);
      Tensor x = inputs.tensor(Part.PAYLOAD, DType.BF16, rank, TOKENS, HIDDEN, arena);
      Dispatch dispatch =
          buffer.dispatch(layout, Tokens.of(x), routings.get(rank), DispatchOptions.DEFAULT);
      new HighThroughputOracle(world, RANKS_PER_NODE)
          .checkDispatch(
              rank,
              layout,
              dispatch,
              Payload.of(DType.BF16, HIDDEN, inputs.rows(Part.PAYLOAD, DType.BF16, HIDDEN)),
              DispatchOptions.DEFAULT);
      try (DispatchHandle handle = dispatch.handle()) {
        Tensor y =
            inputs.tensor(Part.EXPERT_OUTPUT, DType.BF16, rank, handle.rows(), HIDDEN, arena);
        Combine combine = buffer.combine(y, handle, EXACT);
        Terms terms =
            new Terms(
                DType.BF16,
                HIDDEN,
                inputs.rows(Part.EXPERT_OUTPUT, DType.BF16, HIDDEN),
                false,
                false,
                null,
                null,
                null);
        new CombineOracle(world, layout, 1).checkCombine(rank, combine, terms);
      }
    }
  }
}
