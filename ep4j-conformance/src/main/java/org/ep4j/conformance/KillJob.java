package org.ep4j.conformance;

import java.lang.foreign.Arena;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import org.ep4j.BufferConfig;
import org.ep4j.Combine;
import org.ep4j.DType;
import org.ep4j.Dispatch;
import org.ep4j.DispatchHandle;
import org.ep4j.DispatchOptions;
import org.ep4j.Ep4jException;
import org.ep4j.ExpertBuffer;
import org.ep4j.ExpertPlacement;
import org.ep4j.Layout;
import org.ep4j.LowLatencyCombineOptions;
import org.ep4j.LowLatencyDispatch;
import org.ep4j.LowLatencyDispatchOptions;
import org.ep4j.PeerTimeoutException;
import org.ep4j.Routing;
import org.ep4j.Tensor;
import org.ep4j.Tokens;
import org.ep4j.group.Group;
import org.ep4j.verify.CombineOracle;
import org.ep4j.verify.CombineOracle.Terms;
import org.ep4j.verify.HighThroughputOracle;
import org.ep4j.verify.HighThroughputOracle.Payload;
import org.ep4j.verify.Inputs;
import org.ep4j.verify.Inputs.Part;
import org.ep4j.verify.LowLatencyOracle;
import org.ep4j.verify.RoutingGenerator;
import org.ep4j.verify.RoutingKind;
import org.ep4j.verify.Rows;
import org.ep4j.verify.WorldRouting;

/**
 * Operations without end, until a rank is killed; then a reset, and verified operations among those
 * that are left. What happens is written to standard output. Arguments: engine, and whether it has
 * low-latency operations; then {@link NodeArguments}.
 */
final class KillJob implements RankJob {
  static final String JOINED = "kill job: joined";
  static final String RUNNING = "kill job: running";
  static final String LOST = "kill job: lost rank ";
  static final String GOING_ON = "kill job: going on";
  static final String SURVIVED = "kill job: survived";
  static final String GAVE_UP = "kill job: gave up in open: ";

  private static final int HIDDEN = 256;
  private static final int TOP_K = 4;
  private static final int EXPERTS = 12;
  private static final int TOKENS = 40;
  private static final int ROUNDS_A_REPORT = 16;

  @Override
  public void run(Group group, List<String> arguments) {
    System.out.println(JOINED);
    NodeArguments nodes = NodeArguments.of(arguments);
    BufferConfig config =
        nodes
            .apply(BufferConfig.builder())
            .hidden(HIDDEN)
            .topK(TOP_K)
            .experts(EXPERTS)
            .maxTokens(TOKENS)
            .lowLatencyMaxTokens(Boolean.parseBoolean(arguments.get(1)) ? TOKENS : 0)
            .timeout(Duration.ofMinutes(2))
            .engine(arguments.getFirst())
            .build();
    ExpertBuffer opened;
    try {
      opened = ExpertBuffer.open(group, config);
    } catch (Ep4jException e) {
      System.out.println(GAVE_UP + e.getMessage());
      return;
    }
    try (ExpertBuffer buffer = opened) {
      int victim = runUntilKill(buffer);
      System.out.println(LOST + victim);
      buffer.reset();
      for (int round = 0; round < 3; round++) {
        operate(buffer, 1_000_000 + round, victim);
      }
      System.out.println(SURVIVED);
    }
  }

  private static int runUntilKill(ExpertBuffer buffer) {
    try {
      for (long round = 0; ; round++) {
        operate(buffer, round, -1);
        if (round == 1) {
          System.out.println(RUNNING);
        }
        if (round % ROUNDS_A_REPORT == 0) {
          System.out.println(GOING_ON);
        }
      }
    } catch (PeerTimeoutException e) {
      if (!e.peerDead()) {
        throw e;
      }
      System.out.println(e.getMessage());
      return e.peer();
    }
  }

  /** One pair of each kind, verified; {@code gone} takes no part and gets no tokens. */
  private static void operate(ExpertBuffer buffer, long seed, int gone) {
    int ranks = buffer.worldSize();
    ExpertPlacement placement = ExpertPlacement.blocks(EXPERTS, ranks);
    try (Arena arena = Arena.ofShared()) {
      List<Routing> routings = new ArrayList<>();
      RoutingGenerator generator = new RoutingGenerator(RoutingKind.UNIFORM, seed, EXPERTS, TOP_K);
      for (int r = 0; r < ranks; r++) {
        Routing routing = generator.routing(r, r == gone ? 0 : TOKENS, arena);
        routings.add(gone < 0 ? routing : without(routing, placement, gone));
      }
      WorldRouting world = WorldRouting.of(placement, routings);
      Inputs inputs = new Inputs(seed);
      highThroughput(buffer, world, routings.get(buffer.rank()), inputs, seed, arena);
      if (buffer.config().lowLatencyMaxTokens() > 0) {
        lowLatency(buffer, world, routings.get(buffer.rank()), inputs, arena);
      }
    }
  }

  private static Routing without(Routing routing, ExpertPlacement placement, int gone) {
    Tensor idx = routing.topkIdx();
    long[] ids = new long[(int) idx.elements()];
    for (int i = 0; i < ids.length; i++) {
      ids[i] = placement.rankOf((int) idx.getLong(i)) == gone ? -1 : idx.getLong(i);
    }
    return new Routing(Tensor.of(ids, idx.shape()), routing.topkWeights());
  }

  private static void highThroughput(
      ExpertBuffer buffer,
      WorldRouting world,
      Routing routing,
      Inputs inputs,
      long seed,
      Arena arena) {
    int rank = buffer.rank();
    Layout layout = seed % 2 == 0 ? Layout.FLAT : Layout.EXPERT_MAJOR;
    DispatchOptions options = DispatchOptions.builder().layout(layout).build();
    Rows x = inputs.rows(Part.PAYLOAD, DType.BF16, HIDDEN);
    Tensor rows = inputs.tensor(Part.PAYLOAD, DType.BF16, rank, routing.tokens(), HIDDEN, arena);
    Dispatch dispatch = buffer.dispatch(Tokens.of(rows), routing, options);
    int ranksPerNode = buffer.config().ranksPerNode();
    new HighThroughputOracle(world, ranksPerNode)
        .checkDispatch(rank, dispatch, Payload.of(DType.BF16, HIDDEN, x), options);
    try (DispatchHandle handle = dispatch.handle()) {
      Tensor y = inputs.tensor(Part.EXPERT_OUTPUT, DType.BF16, rank, handle.rows(), HIDDEN, arena);
      Combine combine = buffer.combine(y, handle);
      Rows expected = inputs.rows(Part.EXPERT_OUTPUT, DType.BF16, HIDDEN);
      new CombineOracle(world, layout, 1, ranksPerNode)
          .checkCombine(rank, combine, Terms.of(DType.BF16, HIDDEN, expected));
    }
  }

  private static void lowLatency(
      ExpertBuffer buffer, WorldRouting world, Routing routing, Inputs inputs, Arena arena) {
    int rank = buffer.rank();
    int local = world.placement().localExperts(rank);
    long slots = (long) local * world.ranks() * TOKENS;
    Tensor x = inputs.tensor(Part.PAYLOAD, DType.BF16, rank, routing.tokens(), HIDDEN, arena);
    LowLatencyDispatch dispatch =
        buffer.lowLatencyDispatch(x, routing, LowLatencyDispatchOptions.DEFAULT);
    LowLatencyOracle oracle = new LowLatencyOracle(world, TOKENS, HIDDEN);
    oracle.checkDispatch(
        rank,
        dispatch,
        inputs.rows(Part.PAYLOAD, DType.BF16, HIDDEN),
        LowLatencyDispatchOptions.DEFAULT);
    Tensor rows = inputs.tensor(Part.EXPERT_OUTPUT, DType.BF16, rank, slots, HIDDEN, arena);
    Tensor y = Tensor.of(rows.segment(), DType.BF16, local, slots / local, HIDDEN);
    Tensor sums =
        buffer
            .lowLatencyCombine(y, routing, dispatch.handle(), LowLatencyCombineOptions.DEFAULT)
            .x();
    oracle.checkCombine(
        rank,
        sums,
        inputs.rows(Part.EXPERT_OUTPUT, DType.BF16, HIDDEN),
        world,
        LowLatencyCombineOptions.DEFAULT);
  }
}
