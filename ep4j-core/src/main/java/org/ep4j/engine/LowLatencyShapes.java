package org.ep4j.engine;

import org.ep4j.BufferConfig;
import org.ep4j.DType;
import org.ep4j.ErrorCode;
import org.ep4j.Layout;
import org.ep4j.LowLatencyCombineOptions;
import org.ep4j.LowLatencyDispatchOptions;
import org.ep4j.Routing;
import org.ep4j.RowFormat;
import org.ep4j.ScaleKind;
import org.ep4j.Tensor;
import org.jspecify.annotations.Nullable;

/**
 * Checks of the arguments of low-latency operations that are the same for every engine: shapes,
 * types and options. Passing checks allocate nothing.
 */
public final class LowLatencyShapes {
  private static final int UE8M0_BLOCK = 512;

  private LowLatencyShapes() {}

  /**
   * Checks a dispatch.
   *
   * @param ranks number of ranks
   * @param localExperts experts of this rank
   */
  public static void dispatch(
      BufferConfig config,
      int ranks,
      int localExperts,
      Layout layout,
      Tensor x,
      Routing routing,
      LowLatencyDispatchOptions options) {
    if (layout == Layout.FLAT) {
      throw Arguments.invalid(
          ErrorCode.OPTION_NOT_FOR_LAYOUT,
          "layout",
          layout,
          "EXPERT_MAJOR or RANK_MAJOR",
          "call dispatch, or pass another layout");
    }
    if (x.dimensions() != 2 || x.dtype() != DType.BF16 || x.size(1) != config.hidden()) {
      throw Arguments.invalid(
          ErrorCode.WRONG_TENSOR,
          "x",
          x,
          "BF16[tokens, " + config.hidden() + "] (BufferConfig.hidden)",
          "pass BF16 rows; low-latency dispatch quantises them");
    }
    int maxTokens = Limits.lowLatencyTokens(config);
    Arguments.tokenCount("x", x.size(0), maxTokens, Limits.LOW_LATENCY_TOKENS);
    Arguments.routing(config, routing, maxTokens, Limits.LOW_LATENCY_TOKENS);
    if (routing.topkIdx().size(0) != x.size(0)) {
      throw Arguments.invalid(
          ErrorCode.TOKENS_DIFFER,
          "topkIdx",
          routing.topkIdx(),
          "of " + x.size(0) + " tokens like x",
          "route every row of x, with -1 for rows without experts");
    }
    if (options.format() == RowFormat.FP8
        && options.scaleKind() == ScaleKind.UE8M0
        && config.hidden() % UE8M0_BLOCK != 0) {
      throw Arguments.invalid(
          ErrorCode.HIDDEN_NOT_IN_BLOCKS,
          "hidden",
          config.hidden(),
          "a multiple of " + UE8M0_BLOCK + " for UE8M0 scales (four to a word)",
          "use FLOAT32_POW2, or pad hidden");
    }
    Tensor cumulative = options.cumulativeStats();
    if (cumulative != null) {
      Arguments.shape("cumulativeStats", cumulative, DType.INT32, localExperts);
    }
    waitStats(ranks, options.waitStats());
  }

  /**
   * Checks a combine.
   *
   * @param ranks number of ranks
   * @param localExperts experts of this rank
   * @param tokens tokens of the dispatch
   * @param topK its choices a token
   * @param layout its layout
   */
  public static void combine(
      BufferConfig config,
      int ranks,
      int localExperts,
      Tensor y,
      Routing routing,
      int tokens,
      int topK,
      Layout layout,
      LowLatencyCombineOptions options) {
    boolean byRanks = layout == Layout.RANK_MAJOR;
    long groups = byRanks ? ranks : localExperts;
    long capacity = (long) (byRanks ? 1 : ranks) * Limits.lowLatencyTokens(config);
    if (y.dtype() != DType.BF16
        || y.dimensions() != 3
        || y.size(0) != groups
        || y.size(1) != capacity
        || y.size(2) != config.hidden()) {
      throw Arguments.invalid(
          ErrorCode.WRONG_TENSOR,
          "y",
          y,
          "BF16["
              + groups
              + ", "
              + capacity
              + ", "
              + config.hidden()
              + (byRanks
                  ? "] (ranks, lowLatency.maxTokens, hidden)"
                  : "] (local experts, ranks * lowLatency.maxTokens, hidden)"),
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
      Arguments.shape("out", out, DType.BF16, tokens, config.hidden());
    }
    waitStats(ranks, options.waitStats());
  }

  /** Requires the combine region with zeroCopy, and other memory without it. */
  public static void combineRegion(
      Tensor y, boolean isRegion, boolean overlapsRegion, LowLatencyCombineOptions options) {
    if (options.zeroCopy() && !isRegion) {
      throw Arguments.invalid(
          ErrorCode.ZERO_COPY_MISMATCH,
          "y",
          y + " at another address",
          "lowLatencyCombineBuffer(handle) with zeroCopy",
          "write the experts' rows there, or leave zeroCopy out");
    }
    if (!options.zeroCopy() && overlapsRegion) {
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

  private static void waitStats(int ranks, @Nullable Tensor stats) {
    if (stats != null) {
      Arguments.shape("waitStats", stats, DType.INT64, ranks);
    }
  }
}
