package org.ep4j.engine.lowlatency;

import org.ep4j.CombineOrder;
import org.ep4j.LowLatencyCombineOptions;
import org.ep4j.LowLatencyDispatchOptions;
import org.ep4j.config.BufferConfig;
import org.ep4j.config.Layout;
import org.ep4j.engine.Arguments;
import org.ep4j.engine.CallMemory;
import org.ep4j.engine.Limits;
import org.ep4j.error.ErrorCode;
import org.ep4j.routing.Routing;
import org.ep4j.tensor.DType;
import org.ep4j.tensor.RowFormat;
import org.ep4j.tensor.ScaleKind;
import org.ep4j.tensor.Tensor;
import org.jspecify.annotations.Nullable;

/**
 * The checks of the arguments of low-latency operations, in their order: shapes, types and options,
 * then memory. Passing checks allocate nothing. The pass that reads the ids of a routing checks
 * them.
 */
public final class LowLatencyChecks {
  private static final int UE8M0_BLOCK = 512;

  /** Values that share a scale of FP8; rows of every format are multiples. */
  private static final int ROW_BLOCK = 128;

  private LowLatencyChecks() {}

  /**
   * Checks a dispatch.
   *
   * @param shape with the experts of the call
   */
  public static void dispatch(
      BufferConfig config,
      OutputShape shape,
      Layout layout,
      Tensor x,
      Routing routing,
      LowLatencyDispatchOptions options,
      CallMemory memory) {
    if (layout == Layout.FLAT) {
      throw Arguments.invalid(
          ErrorCode.OPTION_NOT_FOR_LAYOUT,
          "layout",
          layout,
          "EXPERT_MAJOR or RANK_MAJOR",
          "call dispatch, or pass another layout");
    }
    if (x.dimensions() != 2
        || x.dtype() != DType.BF16
        || x.size(1) < 1
        || x.size(1) > config.hidden()) {
      throw Arguments.invalid(
          ErrorCode.WRONG_TENSOR,
          "x",
          x,
          "BF16[tokens, 1.." + config.hidden() + "] (BufferConfig.hidden)",
          "pass BF16 rows; low-latency dispatch quantises them");
    }
    long hidden = x.size(1);
    if (hidden % ROW_BLOCK != 0) {
      throw Arguments.invalid(
          ErrorCode.ROWS_NOT_ALIGNED,
          "x",
          x,
          "rows of a multiple of " + ROW_BLOCK + " elements for low-latency operations",
          "pad hidden to " + (hidden / ROW_BLOCK + 1) * ROW_BLOCK);
    }
    Arguments.tokenCount("x", x.size(0), shape.tokens(), Limits.LOW_LATENCY_TOKENS);
    Arguments.routing(config, routing, shape.tokens(), Limits.LOW_LATENCY_TOKENS);
    if (routing.topkIdx().size(0) != x.size(0)) {
      throw Arguments.invalid(
          ErrorCode.TOKENS_DIFFER,
          "topkIdx",
          routing.topkIdx(),
          "of " + x.size(0) + " tokens like x",
          "route every row of x, with -1 for rows without experts");
    }
    if (delivers(layout, options) && routing.topkWeights() == null) {
      throw Arguments.invalid(
          ErrorCode.WEIGHTS_MISSING,
          "topkWeights",
          "null",
          "FP32[tokens, topK] with deliverWeights",
          "pass topkWeights in the routing, or leave deliverWeights out");
    }
    if (options.format() == RowFormat.FP8
        && options.scaleKind() == ScaleKind.UE8M0
        && hidden % UE8M0_BLOCK != 0) {
      throw Arguments.invalid(
          ErrorCode.HIDDEN_NOT_IN_BLOCKS,
          "hidden",
          hidden,
          "a multiple of " + UE8M0_BLOCK + " for UE8M0 scales (four to a word)",
          "use FLOAT32_POW2, or pad hidden");
    }
    Tensor cumulative = options.cumulativeStats();
    if (cumulative != null) {
      Arguments.shape("cumulativeStats", cumulative, DType.INT32, shape.experts());
    }
    waitStats(shape, options.waitStats());
    Tensor globalScale = options.globalScale();
    if (globalScale != null) {
      Arguments.shape("globalScale", globalScale, DType.FP32, 1);
    }
    memory.rows("x", x);
    memory.readable("topkIdx", routing.topkIdx());
    memory.readable("globalScale", globalScale);
    if (layout == Layout.RANK_MAJOR || delivers(layout, options)) {
      memory.readable("topkWeights", routing.topkWeights());
    }
    memory.writable("cumulativeStats", cumulative);
    memory.writable("waitStats", options.waitStats());
  }

  /** Checks the factor of NVFP4 rows, once it can be read. */
  public static void factor(float globalScale) {
    if (!(globalScale > 0) || Float.isInfinite(globalScale)) {
      throw Arguments.invalid(
          ErrorCode.GLOBAL_SCALE,
          "globalScale",
          globalScale,
          "finite and > 0",
          "use 448 * 6 / amax");
    }
  }

  /** Whether a dispatch delivers a weight for each row of an expert. */
  private static boolean delivers(Layout layout, LowLatencyDispatchOptions options) {
    return layout == Layout.EXPERT_MAJOR && options.deliverWeights();
  }

  /** Whether a dispatch sends its weights. */
  public static boolean weighted(
      Layout layout, Routing routing, LowLatencyDispatchOptions options) {
    return layout == Layout.RANK_MAJOR ? routing.topkWeights() != null : delivers(layout, options);
  }

  /**
   * Checks a combine.
   *
   * @param shape with the experts of the dispatch
   * @param tokens tokens of the dispatch
   * @param topK its choices a token
   * @param hidden elements of its rows
   * @param layout its layout
   * @param region its combine region; null if the caller has not asked for it
   */
  public static void combine(
      OutputShape shape,
      Tensor y,
      Routing routing,
      int tokens,
      int topK,
      int hidden,
      Layout layout,
      @Nullable Tensor region,
      LowLatencyCombineOptions options,
      CallMemory memory) {
    boolean byRanks = layout == Layout.RANK_MAJOR;
    int groups = shape.groups(layout);
    long capacity = shape.capacity(layout);
    if (y.dtype() != DType.BF16
        || y.dimensions() != 3
        || y.size(0) != groups
        || y.size(1) != capacity
        || y.size(2) != hidden) {
      throw Arguments.invalid(
          ErrorCode.WRONG_TENSOR,
          "y",
          y,
          "BF16["
              + groups
              + ", "
              + capacity
              + ", "
              + hidden
              + (byRanks
                  ? "] (ranks, lowLatency.maxTokens, hidden of the dispatch)"
                  : "] (local experts, ranks * lowLatency.maxTokens, hidden of the dispatch)"),
          byRanks
              ? "pass one weighted row for each received row, at the same position"
              : "pass the experts' rows at the positions of their inputs");
    }
    if (byRanks && (options.logFmt() || options.partialRounding())) {
      throw Arguments.invalid(
          ErrorCode.OPTION_NOT_FOR_LAYOUT,
          options.logFmt() ? "logFmt" : "partialRounding",
          true,
          "false after a RANK_MAJOR dispatch",
          "leave the option out: RANK_MAJOR rows are partial sums and travel as BF16");
    }
    if (byRanks && options.order() == CombineOrder.EXPERT) {
      throw Arguments.invalid(
          ErrorCode.OPTION_NOT_FOR_LAYOUT,
          "order",
          options.order(),
          "CHOICE after a RANK_MAJOR dispatch, whose rows the caller has summed",
          "dispatch EXPERT_MAJOR");
    }
    Tensor ids = routing.topkIdx();
    if (ids.size(0) != tokens || ids.size(1) != topK) {
      throw Arguments.invalid(
          ErrorCode.ROUTING_CHANGED,
          "topkIdx",
          ids,
          "[" + tokens + ", " + topK + "] as dispatched",
          "pass the routing of the dispatch, with -1 for entries to skip");
    }
    if (!byRanks && routing.topkWeights() == null) {
      throw Arguments.invalid(
          ErrorCode.WEIGHTS_MISSING,
          "topkWeights",
          "null",
          "FP32[tokens, topK]",
          "pass the weights of the experts' rows");
    }
    Tensor out = options.out();
    if (out != null) {
      Arguments.shape("out", out, DType.BF16, tokens, hidden);
      sums(out, y, region);
    }
    waitStats(shape, options.waitStats());
    memory.rows("y", y);
    combineRegion(y, region, options);
    memory.readable("topkIdx", routing.topkIdx());
    if (!byRanks) {
      memory.readable("topkWeights", routing.topkWeights());
      memory.readable("logicalIdx", routing.logicalIdx());
    }
    memory.writableRows("out", out);
    memory.writable("waitStats", options.waitStats());
  }

  /** Requires memory that no rank reads while the sums are written. */
  private static void sums(Tensor out, Tensor y, @Nullable Tensor region) {
    if (Arguments.overlap(out, y) || (region != null && Arguments.overlap(out, region))) {
      throw Arguments.invalid(
          ErrorCode.OUTPUT_OVERLAPS,
          "out",
          out,
          "disjoint from y and from lowLatencyCombineBuffer(handle)",
          "pass other memory, because ranks read these while out is written");
    }
  }

  /** Requires the combine region with zeroCopy, and other memory without it. */
  private static void combineRegion(
      Tensor y, @Nullable Tensor region, LowLatencyCombineOptions options) {
    boolean isRegion =
        region != null
            && y.device() == region.device()
            && (y.onDevice() || y.nativeHost())
            && y.address() == region.address();
    if (options.zeroCopy() && !isRegion) {
      throw Arguments.invalid(
          ErrorCode.ZERO_COPY_MISMATCH,
          "y",
          y + " at another address",
          "lowLatencyCombineBuffer(handle) with zeroCopy",
          "write the experts' rows there, or leave zeroCopy out");
    }
    if (!options.zeroCopy() && region != null && Arguments.overlap(y, region)) {
      throw Arguments.invalid(
          ErrorCode.ZERO_COPY_MISMATCH,
          "y",
          y + " in lowLatencyCombineBuffer(handle)",
          "in other memory without zeroCopy",
          "set zeroCopy, or write the rows to other memory");
    }
  }

  /** Requires a rank other than this one that was alive at the last reset. */
  public static void maskedRank(int rank, int own, int ranks, boolean[] excluded) {
    if (rank < 0 || rank >= ranks || rank == own) {
      throw Arguments.invalid(
          ErrorCode.NO_SUCH_RANK,
          "rank",
          rank,
          "a rank of 0.." + (ranks - 1) + " other than this one (" + own + ")",
          "name another rank: a rank cannot mask itself");
    }
    if (excluded[rank]) {
      throw Arguments.invalid(
          ErrorCode.RANK_EXCLUDED,
          "rank",
          rank,
          "a rank that was alive at the last reset",
          "restart the rank, then call readmit() on all ranks");
    }
  }

  private static void waitStats(OutputShape shape, @Nullable Tensor stats) {
    if (stats != null) {
      Arguments.shape("waitStats", stats, DType.INT64, shape.ranks());
    }
  }
}
