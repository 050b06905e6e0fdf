package org.ep4j.c.struct;

import java.lang.foreign.Arena;
import org.ep4j.DispatchOptions;
import org.ep4j.Sizing;
import org.ep4j.Tokens;
import org.ep4j.config.Layout;
import org.ep4j.error.ErrorCode;
import org.ep4j.error.InvalidArgumentException;
import org.ep4j.memory.NativeMemory;
import org.ep4j.routing.Routing;
import org.ep4j.tensor.ScaleLayout;
import org.ep4j.tensor.Tensor;
import org.jspecify.annotations.Nullable;

/** {@code ep4j_dispatch_args}. */
public final class DispatchRequest extends Request {
  public static final Struct ARGS = Struct.named("ep4j_dispatch_args");
  private static final long X = ARGS.words("x", Tensors.TENSOR.size());
  private static final long SCALES = ARGS.words("scales", Tensors.TENSOR.size());
  private static final long GLOBAL_SCALES = ARGS.words("global_scales", Tensors.TENSOR.size());
  private static final long TOPK_IDX = ARGS.words("topk_idx", Tensors.TENSOR.size());
  private static final long TOPK_WEIGHTS = ARGS.words("topk_weights", Tensors.TENSOR.size());
  private static final long HANDLE = ARGS.int64("handle");
  private static final long EXECUTION = ARGS.words("execution", Request.EXECUTION.size());
  private static final long MAX_ROWS = ARGS.int64("max_rows");
  private static final long LAYOUT = ARGS.int32("layout");
  private static final long EXPERTS = ARGS.int32("experts");
  private static final long EXPERT_ALIGNMENT = ARGS.int32("expert_alignment");
  private static final long ZERO_PADDING = ARGS.int32("zero_padding");
  private static final long SCALE_COLUMNS = ARGS.int32("scale_columns");

  static {
    ARGS.int32("reserved");
  }

  private static final long LOGICAL_IDX = ARGS.words("logical_idx", Tensors.TENSOR.size());
  private static final String IDS = "args->topk_idx";
  private static final Layout[] LAYOUTS = Layout.values();

  private @Nullable Tokens tokens;

  /** Null for a cached dispatch. */
  private @Nullable Routing routing;

  /** The first tensor of a routing that was given, or null. */
  private @Nullable String partOfRouting;

  private DispatchOptions options = DispatchOptions.DEFAULT;
  private Layout layout = Layout.FLAT;

  public DispatchRequest(Arena arena) {
    super(ARGS, HANDLE, EXECUTION, arena);
  }

  @Override
  void read(long args) {
    boolean byColumns = Tensors.isByColumns("args->scales", args + SCALES);
    Tensor x = Tensors.require("args->x", args + X);
    tokens =
        new Tokens(
            x,
            byColumns
                ? Tensors.readColumns("args->scales", args + SCALES, x.size(0))
                : Tensors.read("args->scales", args + SCALES),
            Tensors.read("args->global_scales", args + GLOBAL_SCALES),
            byColumns ? ScaleLayout.COLUMN_MAJOR : ScaleLayout.ROW_MAJOR);
    Tensor ids = Tensors.read(IDS, args + TOPK_IDX);
    Tensor weights = Tensors.read("args->topk_weights", args + TOPK_WEIGHTS);
    Tensor logical = Tensors.read("args->logical_idx", args + LOGICAL_IDX);
    routing = ids == null ? null : new Routing(ids, weights, logical);
    partOfRouting =
        ids != null
            ? IDS
            : weights != null ? "args->topk_weights" : logical != null ? "args->logical_idx" : null;
    layout = Constants.of("args->layout", NativeMemory.getInt(args + LAYOUT), LAYOUTS, Layout.FLAT);
    int alignment = NativeMemory.getInt(args + EXPERT_ALIGNMENT);
    options =
        DispatchOptions.builder()
            .experts(NativeMemory.getInt(args + EXPERTS))
            .sizing(new Sizing(NativeMemory.getLong(args + MAX_ROWS)))
            .expertAlignment(alignment == 0 ? 1 : alignment)
            .zeroPadding(
                Constants.flag("args->zero_padding", NativeMemory.getInt(args + ZERO_PADDING)))
            .scaleLayout(
                Constants.flag("args->scale_columns", NativeMemory.getInt(args + SCALE_COLUMNS))
                    ? ScaleLayout.COLUMN_MAJOR
                    : ScaleLayout.ROW_MAJOR)
            .execution(execution())
            .build();
  }

  public Tokens tokens() {
    return given(tokens);
  }

  public Layout layout() {
    return layout;
  }

  public DispatchOptions options() {
    return options;
  }

  /** Number of the handle of a cached dispatch; 0 for a dispatch with a routing. */
  public long handle() {
    return object();
  }

  /** The routing of a dispatch without a handle. */
  public Routing routing() {
    Routing given = routing;
    if (given == null) {
      throw exclusive(IDS, "absent", "a tensor without a handle");
    }
    return given;
  }

  /** Requires that a dispatch with a handle has no part of a routing: the handle has it. */
  public void requireNoRouting() {
    if (partOfRouting != null) {
      throw exclusive(partOfRouting, "a tensor", "absent with a handle");
    }
  }

  private static InvalidArgumentException exclusive(String field, String value, String limit) {
    return new InvalidArgumentException(
        ErrorCode.OPTIONS_EXCLUSIVE,
        field,
        value,
        limit,
        "pass either a routing or the handle of an earlier dispatch");
  }
}
