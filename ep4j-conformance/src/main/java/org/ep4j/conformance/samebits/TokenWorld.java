package org.ep4j.conformance.samebits;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Random;
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
import org.ep4j.group.Group;
import org.ep4j.group.ThreadRanks;
import org.ep4j.routing.ExpertPlacement;
import org.ep4j.routing.ReplicatedPlacement;
import org.ep4j.routing.Routing;
import org.ep4j.tensor.DType;
import org.ep4j.tensor.RowFormat;
import org.ep4j.tensor.Tensor;

/** A world for tokens: ranks, nodes, places of experts and their replicas, tokens of each rank. */
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
  private final TokenSet set;
  private final boolean lowLatency;
  private final int ranks;
  private final int ranksPerNode;
  private final String wire;
  private final ReplicatedPlacement placement;
  private final boolean partialRounding;

  /** By rank: its tokens in its order. */
  private final List<List<Integer>> tokens = new ArrayList<>();

  /** Draws a world whose ranks are threads. */
  public TokenWorld(Random random, String engine, TokenSet set, boolean lowLatency) {
    this.engine = engine;
    this.set = set;
    this.lowLatency = lowLatency;
    ranks = RANKS[random.nextInt(RANKS.length)];
    ranksPerNode = random.nextInt(3) % ranks;
    String[] wires = engine.equals(EngineName.HOST) ? WIRES : WIRES_OF_GPUS;
    wire = wires[random.nextInt(wires.length)];
    partialRounding = random.nextBoolean();
    int physical = Math.max(ranks, set.experts) + random.nextInt(5);
    int[] logicalOf = new int[physical];
    int[] rankOf = new int[physical];
    for (int p = 0; p < physical; p++) {
      logicalOf[p] = p < set.experts ? p : random.nextInt(set.experts);
      rankOf[p] = p < ranks ? p : random.nextInt(ranks);
    }
    int[] order = TokenSet.shuffled(random, physical);
    int[] placed = new int[physical];
    Arrays.setAll(placed, p -> rankOf[order[p]]);
    placement =
        ReplicatedPlacement.of(ExpertPlacement.table(placed, ranks), logicalOf, set.experts);
    for (int r = 0; r < ranks; r++) {
      tokens.add(new ArrayList<>());
    }
    for (int t : TokenSet.shuffled(random, set.tokens())) {
      // Without some tokens: others have other batch mates.
      if (random.nextInt(10) > 0) {
        tokens.get(random.nextInt(ranks)).add(t);
      }
    }
  }

  /** The results of the tokens that take part, by token; null for the others. */
  public float[][] run() {
    float[][] results = new float[set.tokens()][];
    ThreadRanks.run(
        ranks,
        group -> {
          try (ExpertBuffer buffer = ExpertBuffer.open(group, config())) {
            float[] sums = lowLatency ? lowLatency(buffer, group) : highThroughput(buffer, group);
            List<Integer> own = tokens.get(group.rank());
            for (int n = 0; n < own.size(); n++) {
              results[own.get(n)] = Arrays.copyOfRange(sums, n * set.hidden, (n + 1) * set.hidden);
            }
          }
        });
    return results;
  }

  private BufferConfig config() {
    BufferConfig.Builder config =
        BufferConfig.builder()
            .engine(engine)
            .hidden(set.hidden)
            .topK(set.topK)
            .placement(placement.placement())
            .ranksPerNode(ranksPerNode)
            .wire(wire);
    int max = Math.max(1, set.tokens());
    return lowLatency
        ? config.lowLatency(max).build()
        : config
            .highThroughput(
                HighThroughputConfig.builder()
                    .maxTokens(max)
                    .rowDType(set.dtype)
                    .layouts(Layout.EXPERT_MAJOR)
                    .combineInPlace(true)
                    .build())
            .build();
  }

  private float[] highThroughput(ExpertBuffer buffer, Group group) {
    int rank = group.rank();
    GroupedDispatch received = buffer.dispatchGrouped(rows(rank, set.x, 1, 0), routing(rank));
    Tensor out = received.combineInput(set.dtype);
    for (ExpertRows expert : received.expertRows()) {
      apply(rank, expert, received.x(), out);
    }
    CombineOptions.Builder options =
        CombineOptions.builder()
            .order(CombineOrder.EXPERT)
            .applyWeights(set.applied)
            .partialRounding(partialRounding);
    if (set.biases == 1) {
      options.bias(rows(rank, set.bias, 2, 0));
    } else if (set.biases == 2) {
      options.bias(rows(rank, set.bias, 2, 0), rows(rank, set.bias, 2, 1));
    }
    try (DispatchHandle handle = received.handle()) {
      return buffer.combine(out, handle, options.build()).x().toFloatArray();
    }
  }

  private float[] lowLatency(ExpertBuffer buffer, Group group) {
    int rank = group.rank();
    Routing routing = routing(rank);
    LowLatencyDispatch received =
        buffer.lowLatencyDispatch(
            rows(rank, set.x, 1, 0),
            routing,
            LowLatencyDispatchOptions.builder().format(RowFormat.BF16).build());
    Tensor out = buffer.lowLatencyCombineBuffer(received.handle());
    for (ExpertRows expert : received.expertRows()) {
      apply(rank, expert, received.x(), out);
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

  private void apply(int rank, ExpertRows received, Tensor x, Tensor out) {
    long expert = placement.logicalOf(placement.placement().expertAt(rank, received.local()));
    Tensor from = received.of(x);
    Tensor to = received.of(out);
    for (long row = 0; row < received.count(); row++) {
      to.rows(row, row + 1).copyFrom(set.expert(expert, from.rows(row, row + 1).toFloatArray()));
    }
  }

  /** Row {@code stride * t + at} of each token t of a rank. */
  private Tensor rows(int rank, float[][] all, int stride, int at) {
    List<Integer> own = tokens.get(rank);
    float[] values = new float[own.size() * set.hidden];
    for (int n = 0; n < own.size(); n++) {
      System.arraycopy(all[stride * own.get(n) + at], 0, values, n * set.hidden, set.hidden);
    }
    return Tensor.fromFloats(values, lowLatency ? DType.BF16 : set.dtype, own.size(), set.hidden);
  }

  private Routing routing(int rank) {
    List<Integer> own = tokens.get(rank);
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
    return "%d ranks, %d a node, wire %s, %s, %d tokens, hidden %d, top-%d of %d, %s, %d biases, weights %s"
        .formatted(
            ranks,
            ranksPerNode,
            wire,
            lowLatency ? "low latency" : "high throughput",
            set.tokens(),
            set.hidden,
            set.topK,
            set.experts,
            set.dtype,
            set.biases,
            set.applied);
  }
}
