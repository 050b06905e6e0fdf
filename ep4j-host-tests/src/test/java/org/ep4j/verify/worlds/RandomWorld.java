package org.ep4j.verify.worlds;

import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.BitSet;
import java.util.Collections;
import java.util.List;
import java.util.Random;
import org.ep4j.Combine;
import org.ep4j.CombineOptions;
import org.ep4j.Dispatch;
import org.ep4j.DispatchHandle;
import org.ep4j.DispatchOptions;
import org.ep4j.ExpertBuffer;
import org.ep4j.Sizing;
import org.ep4j.Tokens;
import org.ep4j.config.BufferConfig;
import org.ep4j.config.HighThroughputConfig;
import org.ep4j.config.Layout;
import org.ep4j.config.WireName;
import org.ep4j.execution.Execution;
import org.ep4j.group.Group;
import org.ep4j.group.ThreadRanks;
import org.ep4j.routing.ExpertPlacement;
import org.ep4j.routing.Routing;
import org.ep4j.tensor.DType;
import org.ep4j.tensor.Tensor;
import org.ep4j.verify.CombineOracle;
import org.ep4j.verify.HighThroughputOracle;
import org.ep4j.verify.Poison;
import org.ep4j.verify.Rows;
import org.ep4j.verify.WorldRouting;
import org.jspecify.annotations.Nullable;

/**
 * One world of high throughput against the oracle: placement, routings, options and the arguments
 * of all ranks, drawn from a seed.
 */
final class RandomWorld {
  private static final DType[] PAYLOADS = {
    DType.BF16, DType.FP16, DType.FP32, DType.FP8_E4M3, DType.NVFP4
  };
  private static final DType[] SUMMABLE = {DType.BF16, DType.FP16, DType.FP32};

  /** Nodes of which a token chooses experts, where there are more. */
  private static final int TOP_NODES = 4;

  /**
   * How large a world is.
   *
   * @param ranksPerNode ranks that share memory; 0 = all
   * @param wire between nodes
   * @param experts number of experts
   * @param tokens maximum tokens of a rank
   */
  record Size(int ranks, int ranksPerNode, String wire, int experts, int tokens) {
    private int nodeOf(int rank) {
      return ranksPerNode == 0 ? 0 : rank / ranksPerNode;
    }

    private int nodes() {
      return nodeOf(ranks - 1) + 1;
    }
  }

  private final Random random;
  private final Size size;
  private final int ranks;
  private final int hidden;
  private final int topK;
  private final int tokensMax;
  private final ExpertPlacement placement;
  private final int alignment;
  private final Layout layout;
  private final DType payload;
  private final DType summed;
  private final boolean weighted;
  private final boolean zeroPadding;
  private final boolean limited;
  private final int threads;
  private final List<Routing> routings = new ArrayList<>();
  private final List<Tensor> x = new ArrayList<>();
  private final List<Tensor> again = new ArrayList<>();
  private final List<Tensor> scales = new ArrayList<>();
  private final List<Tensor> factors = new ArrayList<>();
  private final List<Tensor> y = new ArrayList<>();
  private final List<Tensor> bias = new ArrayList<>();
  private final List<Tensor> weights = new ArrayList<>();

  /** A world of a given size. */
  RandomWorld(long seed, Size size) {
    this(new Random(seed), size);
  }

  private RandomWorld(Random random, Size size) {
    this.random = random;
    this.size = size;
    ranks = size.ranks;
    int experts = size.experts;
    topK = 1 + random.nextInt(Math.min(experts, 9));
    hidden = 32 * (1 + random.nextInt(5));
    tokensMax = 1 + random.nextInt(size.tokens);
    placement = random.nextBoolean() ? ExpertPlacement.blocks(experts, ranks) : table(experts);
    alignment = random.nextBoolean() ? 1 : 1 + random.nextInt(8);
    layout = random.nextBoolean() ? Layout.FLAT : Layout.EXPERT_MAJOR;
    payload = PAYLOADS[random.nextInt(PAYLOADS.length)];
    summed = SUMMABLE[random.nextInt(SUMMABLE.length)];
    weighted = random.nextBoolean();
    zeroPadding = random.nextBoolean();
    limited = random.nextInt(3) == 0;
    threads = 1 + random.nextInt(3);
    for (int r = 0; r < ranks; r++) {
      int tokens = random.nextInt(4) == 0 ? 0 : random.nextInt(tokensMax + 1);
      routings.add(routing(tokens, experts));
      x.add(bytes(payload, tokens, hidden));
      again.add(bytes(payload, tokens, hidden));
      scales.add(bytes(DType.FP8_E4M3, tokens, hidden / 16));
      factors.add(floats(tokens));
      bias.add(values(tokens));
    }
  }

  /** A small world of one node. */
  static RandomWorld small(long seed) {
    Random random = new Random(seed);
    int ranks = 1 + random.nextInt(5);
    return new RandomWorld(random, new Size(ranks, 0, WireName.AUTO, 1 + random.nextInt(20), 30));
  }

  private ExpertPlacement table(int experts) {
    int[] rankOf = new int[experts];
    for (int e = 0; e < experts; e++) {
      rankOf[e] = random.nextInt(ranks);
    }
    return ExpertPlacement.table(rankOf, ranks);
  }

  private Routing routing(int tokens, int experts) {
    long[] ids = new long[tokens * topK];
    float[] w = new float[ids.length];
    for (int t = 0; t < tokens; t++) {
      List<Integer> choices = choices(experts);
      for (int k = 0; k < topK; k++) {
        boolean masked = random.nextInt(6) == 0 || k >= choices.size();
        ids[t * topK + k] = masked ? -1 : choices.get(k);
        w[t * topK + k] = random.nextFloat();
      }
    }
    Tensor weightTensor = place(Tensor.of(w, tokens, topK));
    Tensor idTensor =
        random.nextBoolean()
            ? place(Tensor.of(ids, tokens, topK))
            : place(Tensor.of(Arrays.stream(ids).mapToInt(id -> (int) id).toArray(), tokens, topK));
    return weighted ? Routing.of(idTensor, weightTensor) : Routing.of(idTensor);
  }

  /** The experts that a token may choose: those of a few nodes, or all. In any order. */
  private List<Integer> choices(int experts) {
    List<Integer> nodes = shuffled(size.nodes());
    BitSet chosen = new BitSet();
    nodes.subList(0, Math.min(TOP_NODES, nodes.size())).forEach(chosen::set);
    List<Integer> choices = shuffled(experts);
    choices.removeIf(expert -> !chosen.get(size.nodeOf(placement.rankOf(expert))));
    return choices;
  }

  private List<Integer> shuffled(int end) {
    List<Integer> numbers = new ArrayList<>();
    for (int i = 0; i < end; i++) {
      numbers.add(i);
    }
    Collections.shuffle(numbers, random);
    return numbers;
  }

  /** On the heap or, at an unaligned address, in native memory. */
  private Tensor place(Tensor heap) {
    if (random.nextBoolean()) {
      return heap;
    }
    MemorySegment memory = Arena.ofAuto().allocate(heap.byteSize() + 4, 64).asSlice(4);
    heap.copyTo(memory);
    return Tensor.of(memory, heap.dtype(), heap.shape());
  }

  private Tensor bytes(DType dtype, int rows, int columns) {
    byte[] values = new byte[(int) dtype.bytes((long) rows * columns)];
    random.nextBytes(values);
    return place(Tensor.of(MemorySegment.ofArray(values), dtype, rows, columns));
  }

  private Tensor floats(int n) {
    float[] values = new float[n];
    for (int i = 0; i < n; i++) {
      values[i] = random.nextFloat();
    }
    return place(Tensor.of(values, n));
  }

  /** Summable rows: no NaN, no overflow. */
  private Tensor values(int rows) {
    MemorySegment memory =
        MemorySegment.ofArray(new byte[(int) summed.bytes((long) rows * hidden)]);
    for (int i = 0; i < rows * hidden; i++) {
      float value = (random.nextFloat() - 0.5f) * 16;
      switch (summed) {
        case BF16 ->
            memory.setAtIndex(
                ValueLayout.JAVA_SHORT_UNALIGNED,
                i,
                (short) (Float.floatToRawIntBits(value) >>> 16));
        case FP16 ->
            memory.setAtIndex(ValueLayout.JAVA_SHORT_UNALIGNED, i, Float.floatToFloat16(value));
        default -> memory.setAtIndex(ValueLayout.JAVA_FLOAT_UNALIGNED, i, value);
      }
    }
    return place(Tensor.of(memory, summed, rows, hidden));
  }

  private Tokens tokens(int rank, List<Tensor> rows) {
    return switch (payload) {
      case NVFP4 -> Tokens.of(rows.get(rank), scales.get(rank), factors.get(rank));
      case FP8_E4M3 -> Tokens.of(rows.get(rank), scales.get(rank));
      default -> Tokens.of(rows.get(rank));
    };
  }

  private HighThroughputOracle.Payload expected(List<Tensor> rows) {
    boolean scaled = payload == DType.NVFP4 || payload == DType.FP8_E4M3;
    return new HighThroughputOracle.Payload(
        payload,
        hidden,
        Rows.of(rows),
        scaled
            ? new HighThroughputOracle.Blocks(DType.FP8_E4M3, hidden / 16, Rows.of(scales))
            : null,
        payload == DType.NVFP4 ? Rows.of(factors) : null);
  }

  /** Runs the operations on a thread a rank, and checks every result. */
  void run(Duration limit) {
    WorldRouting world = WorldRouting.of(placement, routings);
    HighThroughputOracle oracle = new HighThroughputOracle(world);
    // One for all ranks: it holds what every rank receives.
    CombineOracle sums = new CombineOracle(world, layout, alignment, size.ranksPerNode);
    long max = 1;
    for (int r = 0; r < ranks; r++) {
      int rows = oracle.rows(r, layout, alignment);
      max = Math.max(max, rows);
      y.add(values(rows));
      weights.add(layout == Layout.FLAT ? bytesOfFloats(rows, topK) : floats(rows));
    }
    long rows = max + random.nextInt(5);
    ThreadRanks.run(ranks, limit, group -> rank(group, world, sums, rows));
  }

  private Tensor bytesOfFloats(int rows, int columns) {
    float[] w = new float[rows * columns];
    for (int i = 0; i < w.length; i++) {
      w[i] = random.nextFloat();
    }
    return place(Tensor.of(w, rows, columns));
  }

  private void rank(Group group, WorldRouting world, CombineOracle sums, long limit) {
    int rank = group.rank();
    BufferConfig config =
        BufferConfig.builder()
            .hidden(hidden)
            .topK(topK)
            .placement(placement)
            .ranksPerNode(size.ranksPerNode)
            .wire(size.wire)
            .highThroughput(
                HighThroughputConfig.builder()
                    .maxTokens(tokensMax)
                    .rowDType(DType.FP32)
                    .expertAlignment(8)
                    .layouts(layout)
                    .build())
            .parallelism(threads)
            .build();
    DispatchOptions.Builder options =
        DispatchOptions.builder().expertAlignment(alignment).zeroPadding(zeroPadding);
    HighThroughputOracle oracle = new HighThroughputOracle(world, size.ranksPerNode);
    try (ExpertBuffer buffer = ExpertBuffer.open(group, config)) {
      if (limited) {
        long room = buffer.config().highThroughput().orElseThrow().maxReceiveRows().orElseThrow();
        options.sizing(Sizing.atMost(Math.min(limit, room)));
      }
      oracle.checkLayout(rank, buffer.dispatchLayout(routings.get(rank)));
      Dispatch d = buffer.dispatch(layout, tokens(rank, x), routings.get(rank), options.build());
      oracle.checkDispatch(rank, layout, d, expected(x), options.build());
      DispatchHandle handle = d.handle();
      Poison.fill(d);
      d = buffer.dispatch(layout, tokens(rank, again), handle, Execution.SYNCHRONOUS);
      oracle.checkCached(rank, layout, d, expected(again), options.build());
      combine(buffer, rank, sums, d, null, true, false);
      combine(buffer, rank, sums, d, bias.get(rank), false, false);
      if (weighted && layout == Layout.EXPERT_MAJOR) {
        combine(buffer, rank, sums, d, bias.get(rank), true, true);
        combine(buffer, rank, sums, d, null, false, true);
      }
      handle.close();
    }
  }

  private void combine(
      ExpertBuffer buffer,
      int rank,
      CombineOracle sums,
      Dispatch d,
      @Nullable Tensor added,
      boolean partialRounding,
      boolean applyWeights) {
    CombineOptions.Builder options =
        CombineOptions.builder()
            .partialRounding(partialRounding)
            .applyWeights(applyWeights)
            .topkWeights(weights.get(rank));
    if (added != null) {
      options.bias(added, added);
    }
    Tensor rows = y.get(rank);
    if (partialRounding) {
      rows = d.combineInput(summed).rows(0, rows.size(0));
      MemorySegment.copy(y.get(rank).segment(), 0, rows.segment(), 0, rows.byteSize());
    }
    Combine c = buffer.combine(rows, d.handle(), options.build());
    Rows biases = added == null ? null : Rows.of(bias);
    CombineOracle.Terms terms =
        new CombineOracle.Terms(
            summed,
            hidden,
            Rows.of(y),
            partialRounding,
            applyWeights,
            biases,
            biases,
            Rows.of(weights));
    synchronized (sums) {
      sums.checkCombine(rank, c, terms);
    }
    Poison.fill(c);
    buffer.barrier();
  }
}
