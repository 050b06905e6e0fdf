package org.ep4j.conformance;

import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.util.ArrayList;
import java.util.List;
import java.util.SplittableRandom;
import org.ep4j.Combine;
import org.ep4j.Dispatch;
import org.ep4j.DispatchHandle;
import org.ep4j.DispatchOptions;
import org.ep4j.ExpertBuffer;
import org.ep4j.Sizing;
import org.ep4j.Tokens;
import org.ep4j.config.BufferConfig;
import org.ep4j.config.HighThroughputConfig;
import org.ep4j.config.Layout;
import org.ep4j.conformance.world.NodeArguments;
import org.ep4j.conformance.world.RankJob;
import org.ep4j.execution.Execution;
import org.ep4j.group.Group;
import org.ep4j.routing.ExpertPlacement;
import org.ep4j.routing.Routing;
import org.ep4j.tensor.DType;
import org.ep4j.tensor.Tensor;
import org.ep4j.verify.CombineOracle;
import org.ep4j.verify.CombineOracle.Terms;
import org.ep4j.verify.HighThroughputOracle;
import org.ep4j.verify.HighThroughputOracle.Payload;
import org.ep4j.verify.HostCopy;
import org.ep4j.verify.Inputs;
import org.ep4j.verify.Inputs.Part;
import org.ep4j.verify.Poison;
import org.ep4j.verify.RoutingGenerator;
import org.ep4j.verify.RoutingKind;
import org.ep4j.verify.Rows;
import org.ep4j.verify.WorldRouting;

/**
 * Many operations on one buffer, each with its own routing; compares every byte of every result
 * with the oracle. Poisons the results before the next operation. Arguments: engine, number of
 * operations, seed; then {@link NodeArguments}.
 */
final class RoutingSoakJob implements RankJob {
  private static final int HIDDEN = 256;
  private static final int TOP_K = 4;
  private static final int EXPERTS = 24;
  private static final int TOKENS = 24;
  private static final int ALIGNMENT = 8;
  private static final int ROUNDS_A_REPORT = 10_000;

  @Override
  public void run(Group group, List<String> arguments) {
    long operations = Long.parseLong(arguments.get(1));
    long seed = Long.parseLong(arguments.get(2));
    BufferConfig config =
        NodeArguments.of(arguments)
            .apply(BufferConfig.builder())
            .hidden(HIDDEN)
            .topK(TOP_K)
            .experts(EXPERTS)
            .highThroughput(
                HighThroughputConfig.builder()
                    .maxTokens(TOKENS)
                    .expertAlignment(ALIGNMENT)
                    .layouts(Layout.FLAT, Layout.EXPERT_MAJOR)
                    .build())
            .engine(arguments.getFirst())
            .build();
    try (ExpertBuffer buffer = ExpertBuffer.open(group, config)) {
      long done = 0;
      for (long round = 0; done < operations; round++) {
        try {
          done += round(buffer, seed + round);
        } catch (RuntimeException | AssertionError e) {
          throw new AssertionError(
              "after %d operations, in the round of seed %d: %s"
                  .formatted(done, seed + round, e.getMessage()),
              e);
        }
        if (group.rank() == 0 && round % ROUNDS_A_REPORT == ROUNDS_A_REPORT - 1) {
          System.out.printf("%d operations, all bytes right%n", done);
        }
      }
    }
  }

  /** A dispatch, its combine, and occasionally a cached pair; returns the number of operations. */
  private static int round(ExpertBuffer buffer, long seed) {
    SplittableRandom shared = new SplittableRandom(seed);
    int rank = buffer.rank();
    try (Arena arena = Arena.ofConfined()) {
      List<Routing> routings = routings(buffer.worldSize(), seed, shared, arena);
      WorldRouting world =
          WorldRouting.of(ExpertPlacement.blocks(EXPERTS, buffer.worldSize()), routings);
      HighThroughputOracle oracle = new HighThroughputOracle(world, buffer.config().ranksPerNode());
      Layout layout = shared.nextInt(2) == 0 ? Layout.FLAT : Layout.EXPERT_MAJOR;
      DispatchOptions options = options(layout, buffer.worldSize(), oracle, shared);
      Inputs inputs = new Inputs(seed);
      Dispatch dispatch =
          buffer.dispatch(layout, tokens(inputs, world, rank, arena), routings.get(rank), options);
      oracle.checkDispatch(rank, layout, dispatch, payload(inputs), options);
      try (DispatchHandle handle = dispatch.handle()) {
        combine(buffer, layout, dispatch, world, options, inputs);
        Poison.fill(dispatch);
        if (shared.nextInt(4) != 0) {
          return 2;
        }
        Inputs others = new Inputs(~seed);
        Dispatch again =
            buffer.dispatch(
                layout, tokens(others, world, rank, arena), handle, Execution.SYNCHRONOUS);
        oracle.checkCached(rank, layout, again, payload(others), options);
        combine(buffer, layout, again, world, options, others);
        Poison.fill(again);
        return 4;
      }
    }
  }

  private static List<Routing> routings(
      int ranks, long seed, SplittableRandom shared, Arena arena) {
    RoutingKind kind = RoutingKind.values()[shared.nextInt(RoutingKind.values().length)];
    RoutingGenerator generator = new RoutingGenerator(kind, seed, EXPERTS, TOP_K);
    int masked = shared.nextInt(3) == 0 ? 100 : 0;
    List<Routing> routings = new ArrayList<>();
    for (int r = 0; r < ranks; r++) {
      int tokens = shared.nextInt(5) == 0 ? shared.nextInt(2) : shared.nextInt(TOKENS + 1);
      routings.add(generator.routing(r, tokens, masked, arena));
    }
    return routings;
  }

  private static DispatchOptions options(
      Layout layout, int ranks, HighThroughputOracle oracle, SplittableRandom shared) {
    int alignment = layout == Layout.FLAT ? 1 : ALIGNMENT;
    int max = 1;
    for (int r = 0; r < ranks; r++) {
      max = Math.max(max, oracle.rows(r, layout, alignment));
    }
    return DispatchOptions.builder()
        .expertAlignment(alignment)
        .zeroPadding(shared.nextBoolean())
        .sizing(shared.nextBoolean() ? Sizing.EXACT : Sizing.atMost(max + shared.nextInt(3)))
        .build();
  }

  private static Tokens tokens(Inputs inputs, WorldRouting world, int rank, Arena arena) {
    return Tokens.of(
        inputs.tensor(Part.PAYLOAD, DType.BF16, rank, world.tokens(rank), HIDDEN, arena));
  }

  private static Payload payload(Inputs inputs) {
    return Payload.of(DType.BF16, HIDDEN, inputs.rows(Part.PAYLOAD, DType.BF16, HIDDEN));
  }

  private static void combine(
      ExpertBuffer buffer,
      Layout layout,
      Dispatch dispatch,
      WorldRouting world,
      DispatchOptions options,
      Inputs inputs) {
    int rank = buffer.rank();
    Rows y = inputs.rows(Part.EXPERT_OUTPUT, DType.BF16, HIDDEN);
    long rows = dispatch.handle().rows();
    Tensor region = dispatch.combineInput(DType.BF16).rows(0, rows);
    long rowBytes = DType.BF16.bytes(HIDDEN);
    HostCopy.write(
        region,
        memory -> {
          for (long i = 0; i < rows; i++) {
            MemorySegment row = memory.asSlice(i * rowBytes, rowBytes);
            row.copyFrom(y.row(rank, i));
          }
        });
    Combine combine = buffer.combine(region, dispatch.handle());
    int ranksPerNode = buffer.config().ranksPerNode();
    new CombineOracle(world, layout, options.expertAlignment(), ranksPerNode)
        .checkCombine(rank, combine, Terms.of(DType.BF16, HIDDEN, y));
    Poison.fill(combine);
  }
}
