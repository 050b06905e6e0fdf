package org.ep4j.conformance.round;

import java.lang.foreign.Arena;
import java.util.ArrayList;
import java.util.List;
import org.ep4j.Combine;
import org.ep4j.Dispatch;
import org.ep4j.DispatchHandle;
import org.ep4j.DispatchOptions;
import org.ep4j.ExpertBuffer;
import org.ep4j.LowLatencyCombineOptions;
import org.ep4j.LowLatencyDispatch;
import org.ep4j.LowLatencyDispatchOptions;
import org.ep4j.Tokens;
import org.ep4j.config.BufferConfig;
import org.ep4j.config.HighThroughputConfig;
import org.ep4j.config.Layout;
import org.ep4j.config.LowLatencyConfig;
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
import org.ep4j.verify.LowLatencyOracle;
import org.ep4j.verify.RoutingGenerator;
import org.ep4j.verify.RoutingKind;
import org.ep4j.verify.Rows;
import org.ep4j.verify.WorldRouting;

/** One dispatch and combine of each kind in a world of fixed shape, verified. */
public final class VerifiedRound {
  /** Operations of a round with both kinds. */
  public static final int OPERATIONS = 4;

  static final int HIDDEN = 256;
  static final int TOP_K = 4;
  static final int EXPERTS = 12;
  static final int TOKENS = 40;

  private VerifiedRound() {}

  /** Configuration of buffers for the round. */
  public static BufferConfig.Builder shape(BufferConfig.Builder config, boolean lowLatency) {
    BufferConfig.Builder shape =
        config
            .hidden(HIDDEN)
            .topK(TOP_K)
            .experts(EXPERTS)
            .highThroughput(
                HighThroughputConfig.builder()
                    .maxTokens(TOKENS)
                    .layouts(Layout.FLAT, Layout.EXPERT_MAJOR)
                    .build());
    return lowLatency ? shape.lowLatency(TOKENS) : shape;
  }

  /** The same with low-latency operations that mask late ranks. */
  public static BufferConfig.Builder masking(BufferConfig.Builder config) {
    return shape(config, false)
        .lowLatency(LowLatencyConfig.builder().maxTokens(TOKENS).masking(true).build());
  }

  /** A low-latency pair whose results are not checked: a rank may be lost meanwhile. */
  public static void unchecked(ExpertBuffer buffer, long seed) {
    int rank = buffer.rank();
    try (Arena arena = Arena.ofShared()) {
      Routing routing =
          new RoutingGenerator(RoutingKind.UNIFORM, seed, EXPERTS, TOP_K)
              .routing(rank, TOKENS, arena);
      Inputs inputs = new Inputs(seed);
      Tensor x = inputs.tensor(Part.PAYLOAD, DType.BF16, rank, TOKENS, HIDDEN, arena);
      LowLatencyDispatch dispatch =
          buffer.lowLatencyDispatch(x, routing, LowLatencyDispatchOptions.DEFAULT);
      int local = ExpertPlacement.blocks(EXPERTS, buffer.worldSize()).localExperts(rank);
      Tensor y = expertRows(inputs, rank, local, buffer.worldSize(), arena);
      buffer
          .lowLatencyCombine(y, routing, dispatch.handle(), LowLatencyCombineOptions.DEFAULT)
          .event()
          .await();
    }
  }

  private static Tensor expertRows(Inputs inputs, int rank, int local, int ranks, Arena arena) {
    long slots = (long) local * ranks * TOKENS;
    Tensor rows = inputs.tensor(Part.EXPERT_OUTPUT, DType.BF16, rank, slots, HIDDEN, arena);
    return Tensor.of(rows.segment(), DType.BF16, local, slots / local, HIDDEN);
  }

  /** One pair of each kind, verified; {@code gone} takes no part and gets no tokens. */
  public static void operate(ExpertBuffer buffer, long seed, int gone) {
    run(buffer, seed, gone, true, OPERATIONS);
  }

  /** The first operations of that round; this rank skips the next one. */
  public static void begin(ExpertBuffer buffer, long seed, int operations) {
    run(buffer, seed, -1, operations > 0, operations);
  }

  private static void run(
      ExpertBuffer buffer, long seed, int gone, boolean highThroughput, int operations) {
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
      if (highThroughput) {
        Layout layout = seed % 2 == 0 ? Layout.FLAT : Layout.EXPERT_MAJOR;
        boolean combines = operations > 1;
        Routing own = routings.get(buffer.rank());
        highThroughput(buffer, layout, world, own, inputs, combines, arena);
      }
      if (buffer.config().lowLatency().isPresent() && operations > 2) {
        boolean combines = operations > 3;
        lowLatency(buffer, world, routings.get(buffer.rank()), inputs, combines, arena);
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
      Layout layout,
      WorldRouting world,
      Routing routing,
      Inputs inputs,
      boolean combines,
      Arena arena) {
    int rank = buffer.rank();
    Rows x = inputs.rows(Part.PAYLOAD, DType.BF16, HIDDEN);
    Tensor rows = inputs.tensor(Part.PAYLOAD, DType.BF16, rank, routing.tokens(), HIDDEN, arena);
    Dispatch dispatch = buffer.dispatch(layout, Tokens.of(rows), routing, DispatchOptions.DEFAULT);
    int ranksPerNode = buffer.config().ranksPerNode();
    new HighThroughputOracle(world, ranksPerNode)
        .checkDispatch(
            rank, layout, dispatch, Payload.of(DType.BF16, HIDDEN, x), DispatchOptions.DEFAULT);
    try (DispatchHandle handle = dispatch.handle()) {
      if (!combines) {
        return;
      }
      Tensor y = inputs.tensor(Part.EXPERT_OUTPUT, DType.BF16, rank, handle.rows(), HIDDEN, arena);
      Combine combine = buffer.combine(y, handle);
      Rows expected = inputs.rows(Part.EXPERT_OUTPUT, DType.BF16, HIDDEN);
      new CombineOracle(world, layout, 1, ranksPerNode)
          .checkCombine(rank, combine, Terms.of(DType.BF16, HIDDEN, expected));
    }
  }

  /** A dispatch of few tokens in that layout and its combine, verified. */
  static void few(ExpertBuffer buffer, Layout layout, long seed, int tokens) {
    int ranks = buffer.worldSize();
    try (Arena arena = Arena.ofShared()) {
      RoutingGenerator generator = new RoutingGenerator(RoutingKind.UNIFORM, seed, EXPERTS, TOP_K);
      List<Routing> routings = new ArrayList<>();
      for (int r = 0; r < ranks; r++) {
        routings.add(generator.routing(r, tokens, arena));
      }
      WorldRouting world = WorldRouting.of(ExpertPlacement.blocks(EXPERTS, ranks), routings);
      Routing own = routings.get(buffer.rank());
      highThroughput(buffer, layout, world, own, new Inputs(seed), true, arena);
    }
  }

  /** The low-latency part of {@link #operate}. */
  public static void lowLatency(ExpertBuffer buffer, long seed, int gone) {
    run(buffer, seed, gone, false, OPERATIONS);
  }

  private static void lowLatency(
      ExpertBuffer buffer,
      WorldRouting world,
      Routing routing,
      Inputs inputs,
      boolean combines,
      Arena arena) {
    int rank = buffer.rank();
    int local = world.placement().localExperts(rank);
    Tensor x = inputs.tensor(Part.PAYLOAD, DType.BF16, rank, routing.tokens(), HIDDEN, arena);
    LowLatencyDispatch dispatch =
        buffer.lowLatencyDispatch(x, routing, LowLatencyDispatchOptions.DEFAULT);
    LowLatencyOracle oracle = new LowLatencyOracle(world, TOKENS, HIDDEN);
    oracle.checkDispatch(
        rank,
        dispatch,
        inputs.rows(Part.PAYLOAD, DType.BF16, HIDDEN),
        LowLatencyDispatchOptions.DEFAULT);
    if (!combines) {
      return;
    }
    Tensor y = expertRows(inputs, rank, local, world.ranks(), arena);
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
