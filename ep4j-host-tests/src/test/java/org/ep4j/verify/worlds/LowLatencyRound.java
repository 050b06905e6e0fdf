package org.ep4j.verify.worlds;

import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.util.ArrayList;
import java.util.List;
import java.util.Objects;
import java.util.SplittableRandom;
import org.ep4j.ExpertBuffer;
import org.ep4j.LowLatencyCombine;
import org.ep4j.LowLatencyCombineOptions;
import org.ep4j.LowLatencyDispatch;
import org.ep4j.LowLatencyDispatchOptions;
import org.ep4j.RankMajorDispatch;
import org.ep4j.config.BufferConfig;
import org.ep4j.config.Layout;
import org.ep4j.execution.Execution;
import org.ep4j.routing.ExpertPlacement;
import org.ep4j.routing.Routing;
import org.ep4j.tensor.DType;
import org.ep4j.tensor.RowFormat;
import org.ep4j.tensor.ScaleKind;
import org.ep4j.tensor.ScaleLayout;
import org.ep4j.tensor.Tensor;
import org.ep4j.verify.Inputs;
import org.ep4j.verify.LowLatencyOracle;
import org.ep4j.verify.RankMajorOracle;
import org.ep4j.verify.RoutingGenerator;
import org.ep4j.verify.RoutingKind;
import org.ep4j.verify.Rows;
import org.ep4j.verify.VerificationException;
import org.ep4j.verify.WorldRouting;

/**
 * One dispatch and one combine whose parameters are drawn from a seed, on one rank: calls with this
 * rank's arguments, and checks by the oracle with the arguments of all ranks. All ranks draw the
 * same values.
 */
final class LowLatencyRound {
  /** Nodes of which a token chooses experts, where there are more. */
  private static final int TOP_NODES = 4;

  private final int rank;
  private final int hidden;
  private final Arena arena;
  private final Inputs inputs;
  private final LowLatencyOracle oracle;
  private final RankMajorOracle byRanks;
  private final WorldRouting combined;
  private final Routing routing;
  private final Routing combineRouting;
  private final Tensor x;
  private Layout layout = Layout.EXPERT_MAJOR;
  private final LowLatencyDispatchOptions dispatchOptions;
  private final LowLatencyCombineOptions combineOptions;
  private final boolean heapRows;

  LowLatencyRound(BufferConfig config, int rank, long seed, boolean hooks, Arena arena) {
    this.rank = rank;
    this.hidden = config.hidden();
    this.arena = arena;
    this.inputs = new Inputs(seed);
    SplittableRandom random = new SplittableRandom(seed);
    ExpertPlacement placement = Objects.requireNonNull(config.placement());
    int ranks = placement.ranks();
    int topK = 1 + random.nextInt(config.topK());
    RoutingKind kind = RoutingKind.values()[random.nextInt(3)];
    int groups = groups(config);
    RoutingGenerator generator =
        new RoutingGenerator(
            kind, seed, config.experts(), topK, groups, Math.min(groups, TOP_NODES));
    int masked = random.nextInt(3) * 40;
    boolean narrowIds = random.nextBoolean();
    List<Routing> dispatched = new ArrayList<>();
    List<Routing> returned = new ArrayList<>();
    int[] tokens = new int[ranks];
    for (int r = 0; r < ranks; r++) {
      tokens[r] = random.nextInt(config.lowLatency().orElseThrow().maxTokens() + 1);
      Routing drawn = generator.routing(r, tokens[r], masked, arena);
      dispatched.add(narrowIds ? narrow(drawn) : drawn);
      returned.add(random.nextInt(3) == 0 ? thinned(drawn, random.split()) : drawn);
    }
    WorldRouting world = WorldRouting.of(placement, dispatched);
    oracle = new LowLatencyOracle(world, config.lowLatency().orElseThrow().maxTokens(), hidden);
    byRanks = new RankMajorOracle(world, config.lowLatency().orElseThrow().maxTokens(), hidden);
    combined = WorldRouting.of(placement, returned);
    routing = dispatched.get(rank);
    combineRouting = returned.get(rank);
    Tensor rows = inputs.tensor(Inputs.Part.PAYLOAD, DType.BF16, rank, tokens[rank], hidden, arena);
    heapRows = random.nextBoolean();
    x = heapRows ? onHeap(rows) : rows;
    dispatchOptions = dispatchOptions(random, hooks);
    combineOptions = combineOptions(random, hooks);
  }

  /** Groups of experts for grouped routing: the nodes, if all have as many experts. */
  private static int groups(BufferConfig config) {
    int ranks = Objects.requireNonNull(config.placement()).ranks();
    int nodes = config.ranksPerNode() == 0 ? 1 : Math.ceilDiv(ranks, config.ranksPerNode());
    return nodes > TOP_NODES && config.experts() % nodes == 0 ? nodes : 1;
  }

  private LowLatencyDispatchOptions dispatchOptions(SplittableRandom random, boolean hooks) {
    layout = random.nextBoolean() ? Layout.RANK_MAJOR : Layout.EXPERT_MAJOR;
    int kinds = hidden % 512 == 0 ? 3 : 2;
    LowLatencyDispatchOptions.Builder options =
        LowLatencyDispatchOptions.builder()
            .scaleLayout(ScaleLayout.values()[random.nextInt(2)])
            .format(RowFormat.values()[random.nextInt(3)])
            .scaleKind(ScaleKind.values()[random.nextInt(kinds)])
            .globalScale(Tensor.of(new float[] {1 + random.nextInt(500)}, 1))
            .deliverWeights(random.nextBoolean())
            .returnHook(hooks);
    return options.execution(execution(random, hooks)).build();
  }

  private LowLatencyCombineOptions combineOptions(SplittableRandom random, boolean hooks) {
    int kind = random.nextInt(rankMajor() ? 2 : 4);
    LowLatencyCombineOptions.Builder options =
        LowLatencyCombineOptions.builder()
            .zeroCopy(kind == 1)
            .logFmt(kind == 2)
            .partialRounding(!rankMajor() && kind != 2 && random.nextInt(3) == 0)
            .returnHook(hooks);
    if (random.nextBoolean()) {
      Tensor out = Tensor.of(arena.allocate(x.byteSize() + 1), DType.BF16, x.shape());
      options.out(random.nextBoolean() ? onHeap(out) : out);
    }
    return options.execution(execution(random, hooks)).build();
  }

  private static Execution execution(SplittableRandom random, boolean hooks) {
    return !hooks && random.nextInt(4) == 0 ? Execution.ASYNCHRONOUS : Execution.SYNCHRONOUS;
  }

  private boolean rankMajor() {
    return layout == Layout.RANK_MAJOR;
  }

  LowLatencyDispatch dispatch(ExpertBuffer buffer) {
    return buffer.lowLatencyDispatch(layout, x, routing, dispatchOptions);
  }

  void check(LowLatencyDispatch actual) {
    Rows rows = inputs.rows(Inputs.Part.PAYLOAD, DType.BF16, hidden);
    try {
      if (rankMajor()) {
        byRanks.checkDispatch(rank, (RankMajorDispatch) actual, rows, dispatchOptions);
      } else {
        oracle.checkDispatch(rank, actual, rows, dispatchOptions);
      }
    } catch (VerificationException e) {
      throw new AssertionError(this + ": " + e.getMessage(), e);
    }
  }

  LowLatencyCombine combine(ExpertBuffer buffer, LowLatencyDispatch d) {
    Tensor y;
    if (combineOptions.zeroCopy()) {
      y = buffer.lowLatencyCombineBuffer(d.handle());
    } else {
      long[] shape = {d.counts().size(0), d.x().size(1), hidden};
      MemorySegment memory = arena.allocate(shape[0] * shape[1] * 2 * hidden + 1);
      y = Tensor.of(memory, DType.BF16, shape);
      y = heapRows ? onHeap(y) : y;
    }
    y.segment().fill((byte) 0xFF); // NaN: rows that no rank may read
    Rows rows = expertRows();
    for (int expert = 0; expert < y.size(0); expert++) {
      long first = expert * y.size(1);
      for (long row = first; row < first + d.counts().getInt(expert); row++) {
        MemorySegment.copy(rows.row(rank, row), 0, y.segment(), row * 2 * hidden, 2L * hidden);
      }
    }
    return buffer.lowLatencyCombine(y, combineRouting, d.handle(), combineOptions);
  }

  void check(LowLatencyCombine actual) {
    try {
      if (rankMajor()) {
        byRanks.checkCombine(rank, actual.x(), expertRows());
      } else {
        oracle.checkCombine(rank, actual.x(), expertRows(), combined, combineOptions);
      }
    } catch (VerificationException e) {
      throw new AssertionError(this + ": " + e.getMessage(), e);
    }
  }

  /** Outputs of the experts: magnitudes below 1, so that LogFMT packs them. */
  private Rows expertRows() {
    Rows source = inputs.rows(Inputs.Part.EXPERT_OUTPUT, DType.BF16, hidden);
    MemorySegment row = MemorySegment.ofArray(new short[hidden]);
    return (r, number) -> {
      MemorySegment.copy(source.row(r, number), 0, row, 0, 2L * hidden);
      for (long at = 0; at < row.byteSize(); at += 2) {
        short bits = row.get(ValueLayout.JAVA_SHORT, at);
        row.set(ValueLayout.JAVA_SHORT, at, (short) (bits - 0x0100)); // a quarter
      }
      return row;
    };
  }

  private static Routing narrow(Routing routing) {
    int[] ids = new int[(int) routing.topkIdx().elements()];
    for (int i = 0; i < ids.length; i++) {
      ids[i] = (int) routing.topkIdx().getLong(i);
    }
    return new Routing(Tensor.of(ids, routing.topkIdx().shape()), routing.topkWeights());
  }

  private static Routing thinned(Routing routing, SplittableRandom random) {
    long[] ids = routing.topkIdx().toLongArray();
    for (int i = 0; i < ids.length; i++) {
      ids[i] = random.nextInt(4) == 0 ? -1 : ids[i];
    }
    return new Routing(Tensor.of(ids, routing.topkIdx().shape()), routing.topkWeights());
  }

  private static Tensor onHeap(Tensor tensor) {
    MemorySegment heap = MemorySegment.ofArray(new byte[(int) tensor.byteSize()]);
    tensor.copyTo(heap);
    return Tensor.of(heap, tensor.dtype(), tensor.shape());
  }

  @Override
  public String toString() {
    return layout + ", " + dispatchOptions + ", " + combineOptions + ", " + routing;
  }
}
