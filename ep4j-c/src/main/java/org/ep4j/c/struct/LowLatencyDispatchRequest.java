package org.ep4j.c.struct;

import java.lang.foreign.Arena;
import org.ep4j.LowLatencyDispatchOptions;
import org.ep4j.config.Layout;
import org.ep4j.memory.NativeMemory;
import org.ep4j.routing.Routing;
import org.ep4j.tensor.RowFormat;
import org.ep4j.tensor.ScaleKind;
import org.ep4j.tensor.ScaleLayout;
import org.ep4j.tensor.Tensor;
import org.jspecify.annotations.Nullable;

/** {@code ep4j_low_latency_dispatch_args}. */
public final class LowLatencyDispatchRequest extends Request {
  public static final Struct ARGS = Struct.named("ep4j_low_latency_dispatch_args");
  private static final long X = ARGS.words("x", Tensors.TENSOR.size());
  private static final long TOPK_IDX = ARGS.words("topk_idx", Tensors.TENSOR.size());
  private static final long TOPK_WEIGHTS = ARGS.words("topk_weights", Tensors.TENSOR.size());
  private static final long CUMULATIVE_STATS =
      ARGS.words("cumulative_stats", Tensors.TENSOR.size());
  private static final long WAIT_STATS = ARGS.words("wait_stats", Tensors.TENSOR.size());
  private static final long GLOBAL_SCALE = ARGS.words("global_scale", Tensors.TENSOR.size());
  private static final long EXECUTION = ARGS.words("execution", Request.EXECUTION.size());
  private static final long LAYOUT = ARGS.int32("layout");
  private static final long EXPERTS = ARGS.int32("experts");
  private static final long FORMAT = ARGS.int32("format");
  private static final long SCALE_KIND = ARGS.int32("scale_kind");
  private static final long SCALE_COLUMNS = ARGS.int32("scale_columns");
  private static final long DELIVER_WEIGHTS = ARGS.int32("deliver_weights");
  private static final long RETURN_HOOK = ARGS.int32("return_hook");

  static {
    ARGS.int32("reserved");
  }

  private static final Layout[] LAYOUTS = Layout.values();
  private static final RowFormat[] FORMATS = RowFormat.values();
  private static final ScaleKind[] KINDS = ScaleKind.values();

  private @Nullable Tensor x;
  private @Nullable Routing routing;
  private LowLatencyDispatchOptions options = LowLatencyDispatchOptions.DEFAULT;
  private Layout layout = Layout.EXPERT_MAJOR;

  public LowLatencyDispatchRequest(Arena arena) {
    super(ARGS, Struct.SIZE, EXECUTION, arena);
  }

  @Override
  void read(long args) {
    x = Tensors.require("args->x", args + X);
    routing =
        new Routing(
            Tensors.require("args->topk_idx", args + TOPK_IDX),
            Tensors.read("args->topk_weights", args + TOPK_WEIGHTS));
    layout =
        Constants.of(
            "args->layout", NativeMemory.getInt(args + LAYOUT), LAYOUTS, Layout.EXPERT_MAJOR);
    LowLatencyDispatchOptions.Builder builder =
        LowLatencyDispatchOptions.builder()
            .experts(NativeMemory.getInt(args + EXPERTS))
            .format(
                Constants.of(
                    "args->format", NativeMemory.getInt(args + FORMAT), FORMATS, RowFormat.FP8))
            .scaleKind(
                Constants.of(
                    "args->scale_kind",
                    NativeMemory.getInt(args + SCALE_KIND),
                    KINDS,
                    ScaleKind.FLOAT32))
            .scaleLayout(
                Constants.flag("args->scale_columns", NativeMemory.getInt(args + SCALE_COLUMNS))
                    ? ScaleLayout.COLUMN_MAJOR
                    : ScaleLayout.ROW_MAJOR)
            .deliverWeights(
                Constants.flag(
                    "args->deliver_weights", NativeMemory.getInt(args + DELIVER_WEIGHTS)))
            .returnHook(
                Constants.flag("args->return_hook", NativeMemory.getInt(args + RETURN_HOOK)))
            .execution(execution());
    Tensors.ifPresent("args->cumulative_stats", args + CUMULATIVE_STATS, builder::cumulativeStats);
    Tensors.ifPresent("args->wait_stats", args + WAIT_STATS, builder::waitStats);
    Tensors.ifPresent("args->global_scale", args + GLOBAL_SCALE, builder::globalScale);
    options = builder.build();
  }

  public Tensor x() {
    return given(x);
  }

  public Routing routing() {
    return given(routing);
  }

  public Layout layout() {
    return layout;
  }

  public LowLatencyDispatchOptions options() {
    return options;
  }
}
