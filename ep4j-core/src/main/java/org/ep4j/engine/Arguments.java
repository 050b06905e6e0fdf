package org.ep4j.engine;

import org.ep4j.BufferConfig;
import org.ep4j.CombineOptions;
import org.ep4j.DType;
import org.ep4j.DeviceStream;
import org.ep4j.DispatchHandle;
import org.ep4j.DispatchOptions;
import org.ep4j.ErrorCode;
import org.ep4j.IllegalUseException;
import org.ep4j.InvalidArgumentException;
import org.ep4j.Layout;
import org.ep4j.Routing;
import org.ep4j.Tensor;
import org.ep4j.Tokens;
import org.jspecify.annotations.Nullable;

/**
 * Argument checks that are the same for every engine: shapes and types against the configuration.
 * Each failure names the argument, its value, the limit and the remedy. Passing checks allocate
 * nothing. The pass that reads the ids of a routing checks them.
 */
public final class Arguments {
  private Arguments() {}

  /** An error about argument {@code name}. */
  public static InvalidArgumentException invalid(
      ErrorCode code, String name, Object value, String limit, String remedy) {
    return new InvalidArgumentException(code, name, String.valueOf(value), limit, remedy);
  }

  /** Requires a rank of the group. */
  public static void rank(int rank, int ranks) {
    if (rank < 0 || rank >= ranks) {
      throw invalid(
          ErrorCode.NO_SUCH_RANK, "rank", rank, "0.." + (ranks - 1), "name a rank of the group");
    }
  }

  /** Requires two dimensions of the given type. */
  public static void shape(String name, Tensor tensor, DType dtype, long rows, long columns) {
    if (tensor.dtype() != dtype
        || tensor.dimensions() != 2
        || tensor.size(0) != rows
        || tensor.size(1) != columns) {
      throw invalid(
          ErrorCode.WRONG_TENSOR,
          name,
          tensor,
          dtype + "[" + rows + ", " + columns + "]",
          "pass a tensor of that shape");
    }
  }

  /** Requires one dimension of the given type. */
  public static void shape(String name, Tensor tensor, DType dtype, long elements) {
    if (tensor.dtype() != dtype || tensor.dimensions() != 1 || tensor.size(0) != elements) {
      throw invalid(
          ErrorCode.WRONG_TENSOR,
          name,
          tensor,
          dtype + "[" + elements + "]",
          "pass a tensor of that shape");
    }
  }

  /** Requires host memory that has not been closed. */
  public static void onHost(String name, Tensor tensor) {
    if (tensor.onDevice()) {
      throw invalid(
          ErrorCode.TENSOR_NOT_ON_HOST,
          name,
          tensor,
          "in host memory for the host engine",
          "copy it to the host");
    }
    if (!tensor.segment().scope().isAlive()) {
      throw invalid(
          ErrorCode.TENSOR_CLOSED,
          name,
          tensor,
          "in open memory",
          "close its arena after the operation");
    }
  }

  /** Requires that no device stream was given. */
  public static void noStream(@Nullable DeviceStream stream) {
    if (stream != null) {
      throw invalid(
          ErrorCode.STREAM_ON_HOST,
          "stream",
          stream,
          "null for the host engine",
          "pass no stream, or open the buffer with engine 'cuda'");
    }
  }

  /** Requires host memory that an operation may write. */
  public static void writableOnHost(String name, Tensor tensor) {
    onHost(name, tensor);
    if (tensor.segment().isReadOnly()) {
      throw invalid(
          ErrorCode.TENSOR_READ_ONLY,
          name,
          tensor + " (read-only)",
          "writable",
          "pass a writable segment");
    }
  }

  /** Requires a buffer that was opened for high-throughput operations. */
  public static void highThroughput(BufferConfig config) {
    if (config.highThroughput().isEmpty()) {
      throw new IllegalUseException(
          ErrorCode.HIGH_THROUGHPUT_OFF,
          "the buffer has no high-throughput operations: set BufferConfig.highThroughput");
    }
  }

  /** Checks the payload of a high-throughput dispatch against the configuration. */
  public static void tokens(BufferConfig config, Tokens tokens, int maxScaleBytes) {
    Tensor x = tokens.x();
    DType widest = Limits.rowDType(config);
    if (!isPayload(x.dtype()) || x.dtype().bits() > widest.bits()) {
      throw invalid(
          ErrorCode.ROW_TYPE_TOO_WIDE,
          "x",
          x,
          "a payload type no wider than " + widest + " (BufferConfig.highThroughput.rowDType)",
          "convert it, or open the buffer with a wider rowDType");
    }
    if (x.size(1) < 1 || x.size(1) > config.hidden()) {
      throw invalid(
          ErrorCode.WRONG_TENSOR,
          "x",
          x,
          "[tokens, 1.." + config.hidden() + "] (BufferConfig.hidden)",
          "pass shorter rows, or open the buffer with a larger hidden");
    }
    wholeRows("x", x);
    tokenCount("x", x.size(0), Limits.tokens(config), Limits.HIGH_THROUGHPUT_TOKENS);
    Tensor scales = tokens.scales();
    if (scales != null && tokens.scalesPerRow() * scales.dtype().bits() / 8 > maxScaleBytes) {
      throw invalid(
          ErrorCode.SCALES_TOO_WIDE,
          "scales",
          scales,
          "at most " + maxScaleBytes + " bytes per row",
          "use one scale per 16 values or more");
    }
  }

  /** Requires rows of a multiple of 16 bytes, the unit of transfers. */
  public static void wholeRows(String name, Tensor tensor) {
    DType dtype = tensor.dtype();
    long hidden = tensor.size(1);
    int multiple = 128 / dtype.bits();
    if (hidden % multiple != 0) {
      throw invalid(
          ErrorCode.ROWS_NOT_ALIGNED,
          name,
          tensor,
          "rows of a multiple of " + multiple + " elements for " + dtype + " (16-byte rows)",
          "pad hidden to " + (hidden / multiple + 1) * multiple);
    }
  }

  /** Checks a number of tokens against a maximum of the configuration. */
  public static void tokenCount(String name, long tokens, int max, String field) {
    if (tokens > max) {
      throw invalid(
          ErrorCode.TOO_MANY_TOKENS,
          name,
          tokens + " tokens",
          "at most " + max + " (BufferConfig." + field + ")",
          "split the batch, or open the buffer with a larger " + field);
    }
  }

  /** Checks the shape of a routing against the configuration. */
  public static void routing(BufferConfig config, Routing routing, int maxTokens, String field) {
    Tensor ids = routing.topkIdx();
    if (ids.size(1) < 1 || ids.size(1) > config.topK()) {
      throw invalid(
          ErrorCode.TOP_K_TOO_LARGE,
          "topkIdx",
          ids,
          "[tokens, 1.." + config.topK() + "] (BufferConfig.topK)",
          "open the buffer with a larger topK");
    }
    tokenCount("topkIdx", ids.size(0), maxTokens, field);
  }

  /** Requires as many routed tokens as payload rows. */
  public static void sameTokens(Tokens tokens, Routing routing) {
    if (tokens.x().size(0) != routing.topkIdx().size(0)) {
      throw invalid(
          ErrorCode.TOKENS_DIFFER,
          "topkIdx",
          routing.topkIdx(),
          "of " + tokens.x().size(0) + " tokens like x",
          "route every row of x, with -1 for rows without experts");
    }
  }

  /** Requires as many payload rows as the dispatch that made the handle had. */
  public static void sameTokens(Tokens tokens, DispatchHandle handle) {
    if (tokens.x().size(0) != handle.tokens()) {
      throw invalid(
          ErrorCode.TOKENS_DIFFER,
          "x",
          tokens.x(),
          "of " + handle.tokens() + " tokens like the dispatch that made the handle",
          "pass the same number of tokens, or dispatch with a routing");
    }
  }

  /** Requires a layout for which the buffer was opened. */
  public static void highThroughputLayout(BufferConfig config, Layout layout) {
    if (layout == Layout.RANK_MAJOR) {
      throw invalid(
          ErrorCode.OPTION_NOT_FOR_LAYOUT,
          "layout",
          layout,
          "FLAT or EXPERT_MAJOR",
          "call lowLatencyDispatchByRank, or pass FLAT");
    }
    if (!Limits.layouts(config).contains(layout)) {
      throw invalid(
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
    return invalid(
        ErrorCode.ROWS_NOT_IN_REGION,
        name,
        value,
        "in the received rows of this buffer, which combines in place (combineInPlace, FLAT alone)",
        "write results into combineInput, in a type no wider than rowDType, or open the buffer"
            + " without combineInPlace");
  }

  /** Requires a handle of a dispatch with the same layout. */
  public static void sameLayout(Layout layout, DispatchHandle handle) {
    if (handle.layout() != layout) {
      throw invalid(
          ErrorCode.HANDLE_OF_OTHER_LAYOUT,
          "handle",
          handle,
          "of a dispatch with " + layout,
          layout == Layout.FLAT ? "call dispatchGrouped" : "call dispatch");
    }
  }

  /** The error of an accessor whose tensor the result does not have. */
  public static IllegalUseException missing(String name, String why) {
    return new IllegalUseException(
        ErrorCode.RESULT_MISSING, "the result has no " + name + ": " + why);
  }

  /** Checks options of a high-throughput dispatch against the configuration. */
  public static void options(
      BufferConfig config, Layout layout, DispatchOptions options, long capacity) {
    int alignment =
        config.highThroughput().isPresent() ? config.highThroughput().get().expertAlignment() : 1;
    if (layout == Layout.EXPERT_MAJOR && options.expertAlignment() > alignment) {
      throw invalid(
          ErrorCode.ALIGNMENT_TOO_LARGE,
          "expertAlignment",
          options.expertAlignment(),
          "at most " + alignment + " (BufferConfig.highThroughput.expertAlignment)",
          "open the buffer with a larger expertAlignment");
    }
    if (options.sizing().maxRows() > capacity) {
      throw invalid(
          ErrorCode.ROW_LIMIT_TOO_LARGE,
          "maxRows",
          options.sizing().maxRows(),
          "at most " + capacity + ", the rows of the receive region",
          "pass a smaller limit, or raise maxReceiveRows, up to the worst case of the layouts");
    }
  }

  /**
   * Checks the tensors of a high-throughput combine, except their memory.
   *
   * @param max number of rows that always suffices. If a tensor has fewer, the method calls {@link
   *     DispatchHandle#rows}, which may wait
   * @param all whether {@code max} rows are required; the method then does not call {@code rows}
   */
  public static void combine(
      BufferConfig config,
      Tensor y,
      DispatchHandle handle,
      CombineOptions options,
      long max,
      boolean all) {
    int hidden = config.hidden();
    if (!y.dtype().summable() || y.dimensions() != 2 || y.size(1) < 1 || y.size(1) > hidden) {
      throw invalid(
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
        throw invalid(
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
    if (out != null && overlap(out, y)) {
      throw invalid(
          ErrorCode.OUTPUT_OVERLAPS,
          "out",
          out,
          "disjoint from y",
          "pass other memory, because y is read while out is written");
    }
  }

  /**
   * Checks whether a combine can apply the weights of its dispatch.
   *
   * @param weighted whether the dispatch that made the handle had weights
   */
  public static void applyWeights(CombineOptions options, DispatchHandle handle, boolean weighted) {
    if (!options.applyWeights()) {
      return;
    }
    if (handle.layout() == Layout.FLAT) {
      throw invalid(
          ErrorCode.OPTION_NOT_FOR_LAYOUT,
          "applyWeights",
          true,
          "false for FLAT rows, each of which stands for several experts with a weight each",
          "multiply in the experts, or dispatch EXPERT_MAJOR");
    }
    if (!weighted) {
      throw invalid(
          ErrorCode.WEIGHTS_MISSING,
          "applyWeights",
          true,
          "false, because the dispatch of the handle had no weights",
          "pass topkWeights in the routing of the dispatch");
    }
  }

  private static void receivedRows(
      String name, Tensor tensor, DispatchHandle handle, long max, boolean all) {
    if (tensor.size(0) >= max) {
      return;
    }
    long rows = all ? max : handle.rows();
    if (tensor.size(0) < rows) {
      throw invalid(
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
      shape(name, tensor, y.dtype(), handle.tokens(), y.size(1));
    }
  }

  /** Whether two tensors share bytes; tensors on the Java heap count as disjoint. */
  public static boolean overlap(Tensor a, Tensor b) {
    return a.device() == b.device()
        && (a.onDevice() || (a.nativeHost() && b.nativeHost()))
        && a.address() < b.address() + b.byteSize()
        && b.address() < a.address() + a.byteSize();
  }

  /** Error for an id that names no expert. */
  public static InvalidArgumentException noSuchExpert(int token, int k, long id, int experts) {
    return invalid(
        ErrorCode.NO_SUCH_EXPERT,
        "topkIdx[" + token + ", " + k + "]",
        id,
        "-1.." + (experts - 1) + " (" + experts + " experts)",
        "use -1 for no expert");
  }

  /** Error for a combine that names another expert than its dispatch. */
  public static InvalidArgumentException notAsDispatched(
      int token, int k, long id, long dispatched) {
    return invalid(
        ErrorCode.ROUTING_CHANGED,
        "topkIdx[" + token + ", " + k + "]",
        id,
        dispatched + " as dispatched, or -1 to skip it",
        "pass the routing of the dispatch");
  }

  /** Error for an expert chosen twice by one token. */
  public static InvalidArgumentException duplicateExpert(int token, int k, long id) {
    return invalid(
        ErrorCode.EXPERT_TWICE,
        "topkIdx[" + token + ", " + k + "]",
        id,
        "different from the other choices of its token",
        "choose each expert at most once; fill padding rows with -1, not with [0, 0, ...] as DeepEP");
  }

  private static boolean isPayload(DType dtype) {
    return switch (dtype) {
      case BF16, FP16, FP32, FP8_E4M3, NVFP4 -> true;
      case INT32, INT64, UE8M0, UINT8 -> false;
    };
  }
}
