package org.ep4j.engine.throughput;

import org.ep4j.CombineOptions;
import org.ep4j.CombineOrder;
import org.ep4j.DispatchHandle;
import org.ep4j.DispatchOptions;
import org.ep4j.Tokens;
import org.ep4j.config.BufferConfig;
import org.ep4j.config.Layout;
import org.ep4j.engine.Arguments;
import org.ep4j.engine.CallExperts;
import org.ep4j.engine.CallMemory;
import org.ep4j.engine.Limits;
import org.ep4j.error.ErrorCode;
import org.ep4j.error.IllegalUseException;
import org.ep4j.error.InvalidArgumentException;
import org.ep4j.routing.Routing;
import org.ep4j.tensor.DType;
import org.ep4j.tensor.Tensor;
import org.jspecify.annotations.Nullable;

/**
 * The checks of the arguments of high-throughput operations, in their order: shapes, types and
 * options of each tensor, then its memory. Passing checks allocate nothing.
 */
public final class HighThroughputChecks {
  private HighThroughputChecks() {}

  /**
   * Checks a dispatch.
   *
   * @param maxScaleBytes bytes of scales for which a row has space
   * @param capacity rows of the receive region
   */
  public static void dispatch(
      BufferConfig config,
      Layout layout,
      Tokens tokens,
      Routing routing,
      DispatchOptions options,
      CallExperts experts,
      int maxScaleBytes,
      long capacity,
      CallMemory memory) {
    highThroughput(config);
    highThroughputLayout(config, layout);
    tokens(config, tokens, maxScaleBytes, memory);
    routing(config, routing, memory);
    sameTokens(tokens, routing);
    options(config, layout, options, capacity);
    int ignored = experts.number(options.experts());
  }

  /** Checks the payload of a dispatch. */
  public static void tokens(
      BufferConfig config, Tokens tokens, int maxScaleBytes, CallMemory memory) {
    highThroughput(config);
    Tensor x = tokens.x();
    DType widest = Limits.rowDType(config);
    if (!isPayload(x.dtype()) || x.dtype().bits() > widest.bits()) {
      throw Arguments.invalid(
          ErrorCode.ROW_TYPE_TOO_WIDE,
          "x",
          x,
          "a payload type no wider than " + widest + " (BufferConfig.highThroughput.rowDType)",
          "convert it, or open the buffer with a wider rowDType");
    }
    if (x.size(1) < 1 || x.size(1) > config.hidden()) {
      throw Arguments.invalid(
          ErrorCode.WRONG_TENSOR,
          "x",
          x,
          "[tokens, 1.." + config.hidden() + "] (BufferConfig.hidden)",
          "pass shorter rows, or open the buffer with a larger hidden");
    }
    wholeRows("x", x);
    Arguments.tokenCount("x", x.size(0), Limits.tokens(config), Limits.HIGH_THROUGHPUT_TOKENS);
    Tensor scales = tokens.scales();
    if (scales != null && tokens.scalesPerRow() * scales.dtype().bits() / 8 > maxScaleBytes) {
      throw Arguments.invalid(
          ErrorCode.SCALES_TOO_WIDE,
          "scales",
          scales,
          "at most " + maxScaleBytes + " bytes per row",
          "use one scale per 16 values or more");
    }
    memory.rows("x", x);
    memory.readable("scales", scales);
    memory.readable("globalScales", tokens.globalScales());
  }

  /** Checks a routing. */
  public static void routing(BufferConfig config, Routing routing, CallMemory memory) {
    highThroughput(config);
    Arguments.routing(config, routing, Limits.tokens(config), Limits.HIGH_THROUGHPUT_TOKENS);
    memory.readable("topkIdx", routing.topkIdx());
    memory.readable("topkWeights", routing.topkWeights());
    memory.readable("logicalIdx", routing.logicalIdx());
  }

  /** Checks a dispatch along the routes of {@code handle} with a payload that is checked. */
  public static void cached(Layout layout, Tokens tokens, DispatchHandle handle) {
    sameLayout(layout, handle);
    sameTokens(tokens, handle);
  }

  /**
   * Checks a combine.
   *
   * @param max number of rows that always suffices. If a tensor has fewer, the method calls {@link
   *     DispatchHandle#rows}, which may wait
   * @param all whether {@code max} rows are required; the method then does not call {@code rows}
   */
  public static void combine(
      BufferConfig config,
      Tensor y,
      PooledHandle handle,
      CombineOptions options,
      long max,
      boolean all,
      CallMemory memory) {
    int hidden = config.hidden();
    if (!y.dtype().summable() || y.dimensions() != 2 || y.size(1) < 1 || y.size(1) > hidden) {
      throw Arguments.invalid(
          ErrorCode.WRONG_TENSOR,
          "y",
          y,
          "BF16, FP16 or FP32 [rows, 1.." + hidden + "] (BufferConfig.hidden)",
          "pass the experts' rows");
    }
    receivedRows("y", y, handle, max, all);
    Tensor weights = options.topkWeights();
    if (weights != null) {
      boolean flat = handle.layout() == Layout.FLAT;
      if (weights.dtype() != DType.FP32
          || weights.dimensions() != (flat ? 2 : 1)
          || (flat && weights.size(1) != handle.topK())) {
        throw Arguments.invalid(
            ErrorCode.WRONG_TENSOR,
            "topkWeights",
            weights,
            flat ? "FP32[rows, " + handle.topK() + "]" : "FP32[rows]",
            "pass weights as the dispatch delivered them");
      }
      receivedRows("topkWeights", weights, handle, max, all);
    }
    tokenRows("bias0", options.bias0(), y, handle);
    tokenRows("bias1", options.bias1(), y, handle);
    Tensor out = options.out();
    tokenRows("out", out, y, handle);
    if (out != null && Arguments.overlap(out, y)) {
      throw Arguments.invalid(
          ErrorCode.OUTPUT_OVERLAPS,
          "out",
          out,
          "disjoint from y",
          "pass other memory, because y is read while out is written");
    }
    applyWeights(options, handle, handle.weighted);
    order(options, handle);
    wholeRows("y", y);
    memory.rows("y", y);
    memory.readable("topkWeights", weights);
    memory.rows("bias0", options.bias0());
    memory.rows("bias1", options.bias1());
    memory.writableRows("out", out);
  }

  /** Requires a buffer that was opened for high-throughput operations. */
  public static void highThroughput(BufferConfig config) {
    if (config.highThroughput().isEmpty()) {
      throw new IllegalUseException(
          ErrorCode.HIGH_THROUGHPUT_OFF,
          "the buffer has no high-throughput operations: set BufferConfig.highThroughput");
    }
  }

  /**
   * Requires that peers can read the rows of a combine.
   *
   * @param inRegion whether they lie in the region of this rank
   */
  public static void combineInPlace(BufferConfig config, Tensor y, boolean inRegion) {
    if (Limits.combinesInPlaceOnly(config) && y.byteSize() > 0 && !inRegion) {
      throw notInRegion("y", y);
    }
  }

  /** The error for rows that peers cannot read, in a buffer that combines in place only. */
  public static InvalidArgumentException notInRegion(String name, Object value) {
    return Arguments.invalid(
        ErrorCode.ROWS_NOT_IN_REGION,
        name,
        value,
        "in the received rows of this buffer, which combines in place (combineInPlace with one"
            + " layout)",
        "write results into combineInput, in a type no wider than rowDType, or open the buffer"
            + " without combineInPlace");
  }

  /** Requires a layout for which the buffer was opened. */
  private static void highThroughputLayout(BufferConfig config, Layout layout) {
    if (layout == Layout.RANK_MAJOR) {
      throw Arguments.invalid(
          ErrorCode.OPTION_NOT_FOR_LAYOUT,
          "layout",
          layout,
          "FLAT or EXPERT_MAJOR",
          "call lowLatencyDispatchByRank, or pass FLAT");
    }
    if (!Limits.layouts(config).contains(layout)) {
      throw Arguments.invalid(
          ErrorCode.LAYOUT_NOT_DECLARED,
          "layout",
          layout,
          "one of "
              + Limits.layouts(config)
              + ", for which the buffer has memory (HighThroughputConfig.layouts)",
          "open the buffer with HighThroughputConfig.builder().layouts("
              + (layout == Layout.FLAT ? "FLAT, EXPERT_MAJOR" : "EXPERT_MAJOR")
              + "), or with all layouts that you use");
    }
  }

  /** Requires as many routed tokens as payload rows. */
  private static void sameTokens(Tokens tokens, Routing routing) {
    if (tokens.x().size(0) != routing.topkIdx().size(0)) {
      throw Arguments.invalid(
          ErrorCode.TOKENS_DIFFER,
          "topkIdx",
          routing.topkIdx(),
          "of " + tokens.x().size(0) + " tokens like x",
          "route every row of x, with -1 for rows without experts");
    }
  }

  /** Requires as many payload rows as the dispatch that made the handle had. */
  private static void sameTokens(Tokens tokens, DispatchHandle handle) {
    if (tokens.x().size(0) != handle.tokens()) {
      throw Arguments.invalid(
          ErrorCode.TOKENS_DIFFER,
          "x",
          tokens.x(),
          "of " + handle.tokens() + " tokens like the dispatch that made the handle",
          "pass the same number of tokens, or dispatch with a routing");
    }
  }

  /** Requires a handle of a dispatch with the same layout. */
  private static void sameLayout(Layout layout, DispatchHandle handle) {
    if (handle.layout() != layout) {
      throw Arguments.invalid(
          ErrorCode.HANDLE_OF_OTHER_LAYOUT,
          "handle",
          handle,
          "of a dispatch with " + layout,
          layout == Layout.FLAT ? "call dispatchGrouped" : "call dispatch");
    }
  }

  /** Checks options of a high-throughput dispatch against the configuration. */
  private static void options(
      BufferConfig config, Layout layout, DispatchOptions options, long capacity) {
    int alignment =
        config.highThroughput().isPresent() ? config.highThroughput().get().expertAlignment() : 1;
    if (layout == Layout.EXPERT_MAJOR && options.expertAlignment() > alignment) {
      throw Arguments.invalid(
          ErrorCode.ALIGNMENT_TOO_LARGE,
          "expertAlignment",
          options.expertAlignment(),
          "at most " + alignment + " (BufferConfig.highThroughput.expertAlignment)",
          "open the buffer with a larger expertAlignment");
    }
    if (options.sizing().maxRows() > capacity) {
      throw Arguments.invalid(
          ErrorCode.ROW_LIMIT_TOO_LARGE,
          "maxRows",
          options.sizing().maxRows(),
          "at most " + capacity + ", the rows of the receive region",
          "pass a smaller limit, or raise maxReceiveRows, up to the worst case of the layouts");
    }
  }

  /**
   * Checks whether a combine can apply the weights of its dispatch.
   *
   * @param weighted whether the dispatch that made the handle had weights
   */
  private static void applyWeights(
      CombineOptions options, DispatchHandle handle, boolean weighted) {
    if (!options.applyWeights()) {
      return;
    }
    if (handle.layout() == Layout.FLAT) {
      throw Arguments.invalid(
          ErrorCode.OPTION_NOT_FOR_LAYOUT,
          "applyWeights",
          true,
          "false for FLAT rows, each of which stands for several experts with a weight each",
          "multiply in the experts, or dispatch EXPERT_MAJOR");
    }
    if (!weighted) {
      throw Arguments.invalid(
          ErrorCode.WEIGHTS_MISSING,
          "applyWeights",
          true,
          "false, because the dispatch of the handle had no weights",
          "pass topkWeights in the routing of the dispatch");
    }
  }

  private static void order(CombineOptions options, DispatchHandle handle) {
    if (options.order() == CombineOrder.EXPERT && handle.layout() == Layout.FLAT) {
      throw Arguments.invalid(
          ErrorCode.OPTION_NOT_FOR_LAYOUT,
          "order",
          options.order(),
          "RANK for FLAT rows, in which the caller has summed the experts of a rank",
          "dispatch EXPERT_MAJOR");
    }
  }

  /** Requires rows of a multiple of 16 bytes, the unit of transfers. */
  private static void wholeRows(String name, Tensor tensor) {
    DType dtype = tensor.dtype();
    long hidden = tensor.size(1);
    int multiple = 128 / dtype.bits();
    if (hidden % multiple != 0) {
      throw Arguments.invalid(
          ErrorCode.ROWS_NOT_ALIGNED,
          name,
          tensor,
          "rows of a multiple of " + multiple + " elements for " + dtype + " (16-byte rows)",
          "pad hidden to " + (hidden / multiple + 1) * multiple);
    }
  }

  private static void receivedRows(
      String name, Tensor tensor, DispatchHandle handle, long max, boolean all) {
    if (tensor.size(0) >= max) {
      return;
    }
    long rows = all ? max : handle.rows();
    if (tensor.size(0) < rows) {
      throw Arguments.invalid(
          ErrorCode.TOO_FEW_ROWS,
          name,
          tensor,
          "of at least " + rows + " rows, as many as this rank received",
          "pass one row for each received row");
    }
  }

  private static void tokenRows(
      String name, @Nullable Tensor tensor, Tensor y, DispatchHandle handle) {
    if (tensor != null) {
      Arguments.shape(name, tensor, y.dtype(), handle.tokens(), y.size(1));
    }
  }

  private static boolean isPayload(DType dtype) {
    return switch (dtype) {
      case BF16, FP16, FP32, FP8_E4M3, NVFP4 -> true;
      case INT32, INT64, UE8M0, UINT8 -> false;
    };
  }
}
