package org.ep4j.verify;

import java.lang.foreign.MemorySegment;
import org.ep4j.Dispatch;
import org.ep4j.DispatchLayout;
import org.ep4j.DispatchOptions;
import org.ep4j.FlatDispatch;
import org.ep4j.GroupedDispatch;
import org.ep4j.config.Layout;
import org.ep4j.error.ReceiveOverflowException;
import org.ep4j.tensor.DType;
import org.ep4j.tensor.ScaleLayout;
import org.ep4j.tensor.Tensor;
import org.jspecify.annotations.Nullable;

/**
 * Expected results of a high-throughput dispatch. Every check throws {@link VerificationException}
 * at the first difference. Not thread-safe.
 */
public final class HighThroughputOracle {
  private static final String DISPATCH = "dispatch";

  private final WorldRouting world;
  private final int ranksPerNode;

  /** An oracle for one routing of all ranks, in one node. */
  public HighThroughputOracle(WorldRouting world) {
    this(world, 0);
  }

  /**
   * An oracle for one routing of all ranks.
   *
   * @param ranksPerNode as in {@link org.ep4j.config.BufferConfig#ranksPerNode()}; 0 = one node
   */
  public HighThroughputOracle(WorldRouting world, int ranksPerNode) {
    this.world = world;
    this.ranksPerNode = ranksPerNode == 0 ? world.ranks() : ranksPerNode;
  }

  /**
   * Inputs of the dispatch.
   *
   * @param dtype element type of the rows
   * @param hidden elements of a row
   * @param x rows by (rank, token)
   * @param scales block scales by (rank, token), or null
   * @param globalScales one FP32 per token by (rank, token), or null
   */
  public record Payload(
      DType dtype, int hidden, Rows x, @Nullable Blocks scales, @Nullable Rows globalScales) {
    /** Rows without scales. */
    public static Payload of(DType dtype, int hidden, Rows x) {
      return new Payload(dtype, hidden, x, null, null);
    }
  }

  /**
   * Block scales of a payload.
   *
   * @param dtype element type
   * @param columns scales per row
   * @param rows by (rank, token)
   */
  public record Blocks(DType dtype, int columns, Rows rows) {}

  /** Checks the layout that {@code rank} computed from its own routing. */
  public void checkLayout(int rank, DispatchLayout actual) {
    int ranks = world.ranks();
    int tokens = world.tokens(rank);
    int[] perRank = new int[ranks];
    int[] perExpert = new int[world.placement().experts()];
    byte[] inRank = new byte[tokens * ranks];
    int[] perNode = new int[Math.ceilDiv(ranks, ranksPerNode)];
    for (int t = 0; t < tokens; t++) {
      int lastNode = -1;
      for (int d = 0; d < ranks; d++) {
        if (world.goesTo(rank, t, d)) {
          perRank[d]++;
          inRank[t * ranks + d] = 1;
          perNode[d / ranksPerNode] += d / ranksPerNode == lastNode ? 0 : 1;
          lastNode = d / ranksPerNode;
        }
      }
      for (int k = 0; k < world.topK(); k++) {
        if (world.expert(rank, t, k) >= 0) {
          perExpert[world.expert(rank, t, k)]++;
        }
      }
    }
    try (Check check = new Check("dispatchLayout", rank)) {
      check.ints("tokensPerRank", actual.tokensPerRank(), perRank, ranks);
      check.ints("tokensPerNode", actual.tokensPerNode(), perNode, perNode.length);
      check.ints("tokensPerExpert", actual.tokensPerExpert(), perExpert, perExpert.length);
      Tensor table = check.tensor("tokenInRank", actual.tokenInRank(), DType.UINT8, tokens, ranks);
      MemorySegment expected = MemorySegment.ofArray(inRank);
      for (int t = 0; t < tokens; t++) {
        long at = (long) t * ranks;
        check.bytes(
            "tokenInRank",
            expected.asSlice(at, ranks),
            table.segment(),
            at,
            new Check.Location(t, rank, t, -1));
      }
    }
  }

  /** Number of rows that {@code rank} receives, including padding. */
  public int rows(int rank, Layout layout, int expertAlignment) {
    return ReceivePlan.of(world, rank, layout, expertAlignment).rows;
  }

  /** Checks a dispatch that sends indices and, if the routing has them, weights. */
  public void checkDispatch(
      int rank, Layout layout, Dispatch actual, Payload payload, DispatchOptions options) {
    try (Check check = new Check(DISPATCH, rank)) {
      check(check, rank, layout, actual, payload, options, false);
    }
  }

  /**
   * Checks a cached dispatch.
   *
   * @param options those of the dispatch that made the handle
   */
  public void checkCached(
      int rank, Layout layout, Dispatch actual, Payload payload, DispatchOptions options) {
    try (Check check = new Check("cached dispatch", rank)) {
      check(check, rank, layout, actual, payload, options, true);
    }
  }

  private void check(
      Check check,
      int rank,
      Layout layout,
      Dispatch actual,
      Payload payload,
      DispatchOptions options,
      boolean cached) {
    ReceivePlan plan = ReceivePlan.of(world, rank, layout, options.expertAlignment());
    check.value("receivedRows", Check.Location.NONE, plan.received, actual.receivedRows());
    checkCounts(check, plan, actual);
    long limit = options.sizing().isStatic() ? options.sizing().maxRows() : plan.rows;
    check.value("rows", Check.Location.NONE, limit, actual.rows());
    ReceiveOverflowException overflow = actual.overflow().orElse(null);
    if (plan.rows > limit) {
      checkOverflow(check, plan, limit, overflow);
      plan.cut(limit);
    } else if (overflow != null) {
      throw check.wrong("overflow", Check.Location.NONE, -1, "null", overflow.toString());
    }
    checkSources(check, plan, actual, limit);
    checkPayload(check, plan, actual, payload, options, limit);
    if (cached) {
      check.requireNull("weights", Outputs.weights(actual));
      check.value(
          "hasChoices",
          Check.Location.NONE,
          0,
          actual instanceof FlatDispatch flat && flat.hasChoices() ? 1 : 0);
    } else if (actual instanceof FlatDispatch flat) {
      checkFlatRouting(check, plan, rank, flat, limit);
    } else {
      checkPairWeights(check, plan, actual, limit);
    }
  }

  private void checkCounts(Check check, ReceivePlan plan, Dispatch actual) {
    int local = plan.alignedCounts.length;
    check.ints("counts", actual.counts(), plan.counts, local);
    check.ints("alignedCounts", actual.alignedCounts(), plan.alignedCounts, local);
    if (plan.layout == Layout.FLAT) {
      Tensor offsets = ((FlatDispatch) actual).rankOffsets();
      check.longs("rankOffsets", offsets, plan.rankOffsets, plan.rankOffsets.length);
    } else {
      Tensor offsets = ((GroupedDispatch) actual).expertOffsets();
      check.longs("expertOffsets", offsets, plan.expertOffsets, plan.expertOffsets.length);
    }
  }

  private static void checkOverflow(
      Check check, ReceivePlan plan, long limit, @Nullable ReceiveOverflowException overflow) {
    String expected = plan.rows + " rows needed, " + limit + " available";
    String found =
        overflow == null
            ? "null"
            : overflow.needed() + " rows needed, " + overflow.available() + " available";
    if (!expected.equals(found)) {
      throw check.wrong("overflow", Check.Location.NONE, -1, expected, found);
    }
  }

  private static void checkSources(Check check, ReceivePlan plan, Dispatch actual, long limit) {
    Tensor tokens = check.tensor("sourceTokens", actual.sourceTokens(), DType.INT32, limit);
    Tensor ranks = check.tensor("sourceRanks", actual.sourceRanks(), DType.INT32, limit);
    for (int i = 0; i < limit; i++) {
      boolean used = i < plan.rows;
      check.value(
          "sourceTokens",
          Check.Location.element(i),
          used ? plan.sourceToken[i] : -1,
          tokens.getInt(i));
      check.value(
          "sourceRanks",
          Check.Location.element(i),
          used ? plan.sourceRank[i] : -1,
          ranks.getInt(i));
    }
  }

  private static void checkPayload(
      Check check,
      ReceivePlan plan,
      Dispatch actual,
      Payload payload,
      DispatchOptions options,
      long limit) {
    Tensor x = check.rows("x", actual.x(), plan.rows, payload.dtype(), limit, payload.hidden());
    long rowBytes = payload.dtype().bytes(payload.hidden());
    checkRows(check, "x", plan, payload.x(), x, rowBytes);
    if (options.zeroPadding()) {
      checkPadding(check, plan, x, rowBytes);
    }
    Blocks blocks = payload.scales();
    if (blocks == null) {
      check.requireNull("scales", Outputs.scales(actual));
    } else {
      checkScales(check, plan, Outputs.scales(actual), blocks, options.scaleLayout(), limit);
    }
    Rows globals = payload.globalScales();
    if (globals == null) {
      check.requireNull("globalScales", Outputs.globalScales(actual));
    } else {
      Tensor factors =
          check.tensor("globalScales", Outputs.globalScales(actual), DType.FP32, limit);
      checkRows(check, "globalScales", plan, globals, factors, Float.BYTES);
    }
  }

  private static void checkScales(
      Check check,
      ReceivePlan plan,
      @Nullable Tensor actual,
      Blocks blocks,
      ScaleLayout layout,
      long limit) {
    DType dtype = blocks.dtype();
    int columns = blocks.columns();
    long bytes = dtype.bytes(columns);
    if (layout == ScaleLayout.ROW_MAJOR) {
      Tensor scales = check.rows("scales", actual, plan.rows, dtype, limit, columns);
      checkRows(check, "scales", plan, blocks.rows(), scales, bytes);
      return;
    }
    long length = ScaleLayout.columnLength(dtype, limit);
    Tensor scales = check.tensor("scales", actual, dtype, columns, length);
    MemorySegment rows = ScaleRows.of(scales, dtype, 1, plan.rows, columns, length);
    checkRows(
        check, "scales", plan, blocks.rows(), Tensor.of(rows, dtype, plan.rows, columns), bytes);
  }

  private static void checkRows(
      Check check, String output, ReceivePlan plan, Rows expected, Tensor actual, long rowBytes) {
    MemorySegment bytes = actual.segment();
    for (int i = 0; i < plan.rows; i++) {
      int source = plan.sourceRank[i];
      if (source >= 0) {
        int token = plan.sourceToken[i];
        Check.Location place = new Check.Location(i, source, token, plan.expert[i]);
        check.bytes(output, expected.row(source, token), bytes, i * rowBytes, place);
      }
    }
  }

  private static void checkPadding(Check check, ReceivePlan plan, Tensor x, long rowBytes) {
    MemorySegment zeros = MemorySegment.ofArray(new byte[(int) rowBytes]);
    for (int i = 0; i < plan.rows; i++) {
      if (plan.sourceRank[i] < 0) {
        check.bytes("x (padding)", zeros, x.segment(), i * rowBytes, Check.Location.element(i));
      }
    }
  }

  private void checkFlatRouting(
      Check check, ReceivePlan plan, int rank, FlatDispatch actual, long limit) {
    int topK = world.topK();
    Tensor idx = check.tensor("topkIdx", actual.topkIdx(), DType.INT64, limit, topK);
    Tensor weights = Outputs.weights(actual);
    if (world.weighted()) {
      weights = check.tensor("topkWeights", weights, DType.FP32, limit, topK);
    } else {
      check.requireNull("topkWeights", weights);
    }
    for (int i = 0; i < limit; i++) {
      int source = i < plan.rows ? plan.sourceRank[i] : -1;
      int token = source < 0 ? -1 : plan.sourceToken[i];
      for (int k = 0; k < topK; k++) {
        int expert = source < 0 ? -1 : world.expert(source, token, k);
        boolean local = expert >= 0 && world.placement().rankOf(expert) == rank;
        long at = (long) i * topK + k;
        Check.Location place = new Check.Location(i, source, token, expert);
        long expected = local ? world.placement().localOf(expert) : -1;
        check.value("topkIdx", place, expected, idx.getLong(at));
        if (weights != null && source >= 0) {
          float weight = local ? world.weight(source, token, k) : 0;
          checkFloat(check, "topkWeights", place, weight, weights.getFloat(at));
        }
      }
    }
  }

  private void checkPairWeights(Check check, ReceivePlan plan, Dispatch actual, long limit) {
    if (!world.weighted()) {
      check.requireNull("rowWeights", Outputs.weights(actual));
      return;
    }
    Tensor weights = check.tensor("rowWeights", Outputs.weights(actual), DType.FP32, limit);
    for (int i = 0; i < plan.rows; i++) {
      int source = plan.sourceRank[i];
      int token = plan.sourceToken[i];
      float expected = source < 0 ? 0 : world.weight(source, token, plan.choice[i]);
      Check.Location place = new Check.Location(i, source, token, plan.expert[i]);
      checkFloat(check, "rowWeights", place, expected, weights.getFloat(i));
    }
  }

  static void checkFloat(
      Check check, String output, Check.Location place, float expected, float actual) {
    if (Float.floatToRawIntBits(expected) != Float.floatToRawIntBits(actual)) {
      throw check.wrong(output, place, -1, String.valueOf(expected), String.valueOf(actual));
    }
  }
}
