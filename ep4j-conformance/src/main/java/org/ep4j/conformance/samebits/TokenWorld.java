package org.ep4j.conformance.samebits;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.SplittableRandom;
import java.util.random.RandomGenerator;
import org.ep4j.CombineOptions;
import org.ep4j.CombineOrder;
import org.ep4j.DispatchHandle;
import org.ep4j.ExpertBuffer;
import org.ep4j.ExpertRows;
import org.ep4j.GroupedDispatch;
import org.ep4j.LowLatencyCombineOptions;
import org.ep4j.LowLatencyDispatch;
import org.ep4j.LowLatencyDispatchOptions;
import org.ep4j.config.BufferConfig;
import org.ep4j.config.EngineName;
import org.ep4j.config.HighThroughputConfig;
import org.ep4j.config.Layout;
import org.ep4j.config.WireName;
import org.ep4j.group.ThreadRanks;
import org.ep4j.routing.ExpertPlacement;
import org.ep4j.routing.ReplicatedPlacement;
import org.ep4j.routing.Routing;
import org.ep4j.tensor.RowFormat;
import org.ep4j.tensor.Tensor;

/**
 * A world for tokens: ranks, nodes, places of experts and their replicas. Ranks, group and buffers
 * are opened once for many cases, because a GPU opens buffers for longer than it runs cases.
 */
public final class TokenWorld {
  private static final int[] RANKS = {1, 2, 3, 4, 8};

  /** Wires between nodes of one process; the first opens in the least time. */
  private static final String[] WIRES = {
    WireName.INPROC, WireName.INPROC, WireName.INPROC, WireName.TCP
  };

  /** The same for GPUs. */
  private static final String[] WIRES_OF_GPUS = {
    WireName.STAGED, WireName.STAGED, WireName.STAGED, WireName.TCP
  };

  private final String engine;
  private final TokenLimits limits;
  private final int ranks;
  private final int ranksPerNode;
  private final String wire;
  private final ReplicatedPlacement placement;

  /** Draws the world of a seed; its ranks are threads. */
  public TokenWorld(long seed, String engine) {
    this.engine = engine;
    RandomGenerator random = new SplittableRandom(seed);
    limits = TokenLimits.draw(random);
    ranks = RANKS[random.nextInt(RANKS.length)];
    ranksPerNode = random.nextInt(3) % ranks;
    String[] wires = engine.equals(EngineName.HOST) ? WIRES : WIRES_OF_GPUS;
    wire = wires[random.nextInt(wires.length)];
    int physical = Math.max(ranks, limits.experts()) + random.nextInt(5);
    int[] logicalOf = new int[physical];
    int[] rankOf = new int[physical];
    for (int p = 0; p < physical; p++) {
      logicalOf[p] = p < limits.experts() ? p : random.nextInt(limits.experts());
      rankOf[p] = p < ranks ? p : random.nextInt(ranks);
    }
    int[] order = TokenSet.shuffled(random, physical);
    int[] placed = new int[physical];
    Arrays.setAll(placed, p -> rankOf[order[p]]);
    placement =
        ReplicatedPlacement.of(ExpertPlacement.table(placed, ranks), logicalOf, limits.experts());
  }

  TokenLimits limits() {
    return limits;
  }

  int ranks() {
    return ranks;
  }

  /**
   * Runs cases one after the other through the same buffers. The results of each, by token: those
   * of the tokens that take part; null for the others.
   */
  public List<float[][]> run(List<TokenCase> cases) {
    List<float[][]> results = new ArrayList<>();
    for (TokenCase one : cases) {
      results.add(new float[one.set.tokens()][]);
    }
    ThreadRanks.run(
        ranks,
        group -> {
          try (ExpertBuffer buffer = ExpertBuffer.open(group, config())) {
            for (int n = 0; n < cases.size(); n++) {
              run(buffer, group.rank(), cases.get(n), results.get(n));
            }
          }
        });
    return results;
  }

  private void run(ExpertBuffer buffer, int rank, TokenCase in, float[][] results) {
    try {
      float[] sums =
          limits.lowLatency() ? lowLatency(buffer, rank, in) : highThroughput(buffer, rank, in);
      List<Integer> own = in.tokens.get(rank);
      int hidden = in.set.hidden;
      for (int n = 0; n < own.size(); n++) {
        results[own.get(n)] = Arrays.copyOfRange(sums, n * hidden, (n + 1) * hidden);
      }
    } catch (RuntimeException | Error e) {
      throw new IllegalStateException("rank %d failed in %s of %s".formatted(rank, in, this), e);
    }
  }

  private BufferConfig config() {
    BufferConfig.Builder config =
        BufferConfig.builder()
            .engine(engine)
            .hidden(limits.hidden())
            .topK(limits.topK())
            .placement(placement.placement())
            .ranksPerNode(ranksPerNode)
            .wire(wire);
    return limits.lowLatency()
        ? config.lowLatency(limits.tokens()).build()
        : config
            .highThroughput(
                HighThroughputConfig.builder()
                    .maxTokens(limits.tokens())
                    .rowDType(limits.rowDType())
                    .layouts(Layout.EXPERT_MAJOR)
                    .combineInPlace(true)
                    .build())
            .build();
  }

  private float[] highThroughput(ExpertBuffer buffer, int rank, TokenCase in) {
    GroupedDispatch received =
        buffer.dispatchGrouped(rows(rank, in, in.set.x, 1, 0), routing(rank, in));
    Tensor out = received.combineInput(in.set.dtype);
    for (ExpertRows expert : received.expertRows()) {
      apply(rank, in.set, expert, received.x(), out);
    }
    CombineOptions.Builder options =
        CombineOptions.builder()
            .order(CombineOrder.EXPERT)
            .applyWeights(in.set.applied)
            .partialRounding(in.partialRounding);
    if (in.set.biases == 1) {
      options.bias(rows(rank, in, in.set.bias, 1, 0));
    } else if (in.set.biases == 2) {
      options.bias(rows(rank, in, in.set.bias, 2, 0), rows(rank, in, in.set.bias, 2, 1));
    }
    try (DispatchHandle handle = received.handle()) {
      return buffer.combine(out, handle, options.build()).x().toFloatArray();
    }
  }

  private float[] lowLatency(ExpertBuffer buffer, int rank, TokenCase in) {
    Routing routing = routing(rank, in);
    LowLatencyDispatch received =
        buffer.lowLatencyDispatch(
            rows(rank, in, in.set.x, 1, 0),
            routing,
            LowLatencyDispatchOptions.builder().format(RowFormat.BF16).build());
    Tensor out = buffer.lowLatencyCombineBuffer(received.handle());
    for (ExpertRows expert : received.expertRows()) {
      apply(rank, in.set, expert, received.x(), out);
    }
    return buffer
        .lowLatencyCombine(
            out,
            routing,
            received.handle(),
            LowLatencyCombineOptions.builder().order(CombineOrder.EXPERT).zeroCopy(true).build())
        .x()
        .toFloatArray();
  }

  private void apply(int rank, TokenSet set, ExpertRows received, Tensor x, Tensor out) {
    long expert = placement.logicalOf(placement.placement().expertAt(rank, received.local()));
    received.of(out).copyFrom(set.expert(expert, received.of(x).toFloatArray()));
  }

  /** Row {@code stride * t + at} of each token t of a rank. */
  private static Tensor rows(int rank, TokenCase in, float[][] all, int stride, int at) {
    List<Integer> own = in.tokens.get(rank);
    int hidden = in.set.hidden;
    float[] values = new float[own.size() * hidden];
    for (int n = 0; n < own.size(); n++) {
      System.arraycopy(all[stride * own.get(n) + at], 0, values, n * hidden, hidden);
    }
    return Tensor.fromFloats(values, in.set.dtype, own.size(), hidden);
  }

  private Routing routing(int rank, TokenCase in) {
    List<Integer> own = in.tokens.get(rank);
    TokenSet set = in.set;
    long[] ids = new long[own.size() * set.topK];
    float[] weights = new float[ids.length];
    for (int n = 0; n < own.size(); n++) {
      System.arraycopy(set.ids[own.get(n)], 0, ids, n * set.topK, set.topK);
      System.arraycopy(set.weights[own.get(n)], 0, weights, n * set.topK, set.topK);
    }
    Routing logical =
        Routing.of(Tensor.of(ids, own.size(), set.topK), Tensor.of(weights, own.size(), set.topK));
    return placement.physicalRouting(logical, rank);
  }

  @Override
  public String toString() {
    return "%d ranks, %d a node, wire %s, %s".formatted(ranks, ranksPerNode, wire, limits);
  }
}
