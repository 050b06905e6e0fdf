package org.ep4j.engine.host;

import org.ep4j.BufferConfig;
import org.ep4j.DType;
import org.ep4j.LowLatencyCombineOptions;
import org.ep4j.LowLatencyDispatchOptions;
import org.ep4j.Routing;
import org.ep4j.RowFormat;
import org.ep4j.ScaleKind;
import org.ep4j.Tensor;
import org.ep4j.engine.Arguments;
import org.jspecify.annotations.Nullable;

/** Checks of the arguments of low-latency operations; passing checks allocate nothing. */
final class LowLatencyArguments {
  private static final int UE8M0_BLOCK = 512;

  private LowLatencyArguments() {}

  static void dispatch(
      HostContext context, Tensor x, Routing routing, LowLatencyDispatchOptions options) {
    BufferConfig config = context.config;
    if (x.dimensions() != 2 || x.dtype() != DType.BF16 || x.size(1) != config.hidden()) {
      throw Arguments.invalid(
          "x",
          x,
          "BF16[tokens, " + config.hidden() + "] (BufferConfig.hidden)",
          "low-latency dispatch takes BF16 rows and quantises them itself");
    }
    Arguments.onHost("x", x);
    Arguments.tokenCount("x", x.size(0), config.lowLatencyMaxTokens(), "lowLatencyMaxTokens");
    Arguments.routing(config, routing, config.lowLatencyMaxTokens(), "lowLatencyMaxTokens");
    Arguments.onHost("topkIdx", routing.topkIdx());
    if (routing.topkIdx().size(0) != x.size(0)) {
      throw Arguments.invalid(
          "topkIdx",
          routing.topkIdx(),
          "of " + x.size(0) + " tokens like x",
          "route every row of x, with -1 for rows that go nowhere");
    }
    if (options.format() == RowFormat.FP8
        && options.scaleKind() == ScaleKind.UE8M0
        && config.hidden() % UE8M0_BLOCK != 0) {
      throw Arguments.invalid(
          "hidden",
          config.hidden(),
          "a multiple of " + UE8M0_BLOCK + " for UE8M0 scales (four to a word)",
          "use FLOAT32_POW2, or pad hidden");
    }
    Tensor cumulative = options.cumulativeStats();
    if (cumulative != null) {
      int experts = context.placement.localExperts(context.rank);
      Arguments.shape("cumulativeStats", cumulative, DType.INT32, experts);
      Arguments.writableOnHost("cumulativeStats", cumulative);
    }
    waitStats(context, options.waitStats());
  }

  static void combine(
      HostContext context,
      Tensor y,
      Routing routing,
      LowLatencyRecord record,
      Tensor region,
      LowLatencyCombineOptions options) {
    if (y.dtype() != DType.BF16
        || y.dimensions() != 3
        || y.size(0) != region.size(0)
        || y.size(1) != region.size(1)
        || y.size(2) != region.size(2)) {
      throw Arguments.invalid(
          "y",
          y,
          "BF16["
              + region.size(0)
              + ", "
              + region.size(1)
              + ", "
              + region.size(2)
              + "] (local experts, ranks * lowLatencyMaxTokens, hidden)",
          "pass the experts' rows where the dispatch put their inputs");
    }
    Arguments.onHost("y", y);
    if (options.zeroCopy() && !(y.nativeHost() && y.address() == region.address())) {
      throw Arguments.invalid(
          "y",
          y + " at another address",
          "lowLatencyCombineBuffer(handle) with zeroCopy",
          "write the experts' rows there, or leave zeroCopy out");
    }
    if (!options.zeroCopy() && Arguments.overlap(y, region)) {
      throw Arguments.invalid(
          "y",
          y + " in lowLatencyCombineBuffer(handle)",
          "in other memory without zeroCopy",
          "set zeroCopy; rows to be encoded must lie elsewhere");
    }
    Tensor ids = routing.topkIdx();
    if (ids.size(0) != record.tokens || ids.size(1) != record.topK) {
      throw Arguments.invalid(
          "topkIdx",
          ids,
          "[" + record.tokens + ", " + record.topK + "] as dispatched",
          "pass the routing of the dispatch, with -1 for slots to be skipped");
    }
    Arguments.onHost("topkIdx", ids);
    Tensor weights = routing.topkWeights();
    if (weights == null) {
      throw Arguments.invalid(
          "topkWeights", "absent", "FP32[tokens, topK]", "combine weighs the experts' rows");
    }
    Arguments.onHost("topkWeights", weights);
    Tensor out = options.out();
    if (out != null) {
      Arguments.shape("out", out, DType.BF16, record.tokens, context.config.hidden());
      Arguments.writableOnHost("out", out);
    }
    waitStats(context, options.waitStats());
  }

  static void maskedRank(HostContext context, int rank) {
    if (rank < 0 || rank >= context.ranks || rank == context.rank) {
      throw Arguments.invalid(
          "rank",
          rank,
          "a rank of 0.." + (context.ranks - 1) + " other than this one (" + context.rank + ")",
          "a rank always counts with itself");
    }
    if (context.excluded[rank]) {
      throw Arguments.invalid(
          "rank", rank, "a rank that was alive at the last reset", "open a new buffer without it");
    }
  }

  private static void waitStats(HostContext context, @Nullable Tensor stats) {
    if (stats != null) {
      Arguments.shape("waitStats", stats, DType.INT64, context.ranks);
      Arguments.writableOnHost("waitStats", stats);
    }
  }
}
