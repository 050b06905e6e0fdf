package org.ep4j.c.struct;

import java.lang.foreign.Arena;
import org.ep4j.CombineOrder;
import org.ep4j.LowLatencyCombineOptions;
import org.ep4j.memory.NativeMemory;
import org.ep4j.routing.Routing;
import org.ep4j.tensor.Tensor;
import org.jspecify.annotations.Nullable;

/** {@code ep4j_low_latency_combine_args}. */
public final class LowLatencyCombineRequest extends Request {
  public static final Struct ARGS = Struct.named("ep4j_low_latency_combine_args");
  private static final long DISPATCHED = ARGS.int64("dispatched");
  private static final long Y = ARGS.words("y", Tensors.TENSOR.size());
  private static final long TOPK_IDX = ARGS.words("topk_idx", Tensors.TENSOR.size());
  private static final long TOPK_WEIGHTS = ARGS.words("topk_weights", Tensors.TENSOR.size());
  private static final long OUT = ARGS.words("out", Tensors.TENSOR.size());
  private static final long WAIT_STATS = ARGS.words("wait_stats", Tensors.TENSOR.size());
  private static final long EXECUTION = ARGS.words("execution", Request.EXECUTION.size());
  private static final long LOG_FMT = ARGS.int32("log_fmt");
  private static final long ZERO_COPY = ARGS.int32("zero_copy");
  private static final long PARTIAL_ROUNDING = ARGS.int32("partial_rounding");
  private static final long RETURN_HOOK = ARGS.int32("return_hook");
  private static final long BY_EXPERTS = ARGS.int32("by_experts");

  static {
    ARGS.int32("reserved");
  }

  private static final long LOGICAL_IDX = ARGS.words("logical_idx", Tensors.TENSOR.size());

  private @Nullable Tensor y;
  private @Nullable Routing routing;
  private LowLatencyCombineOptions options = LowLatencyCombineOptions.DEFAULT;

  public LowLatencyCombineRequest(Arena arena) {
    super(ARGS, DISPATCHED, EXECUTION, arena);
  }

  @Override
  void read(long args) {
    y = Tensors.require("args->y", args + Y);
    routing =
        new Routing(
            Tensors.require("args->topk_idx", args + TOPK_IDX),
            Tensors.read("args->topk_weights", args + TOPK_WEIGHTS),
            Tensors.read("args->logical_idx", args + LOGICAL_IDX));
    LowLatencyCombineOptions.Builder builder =
        LowLatencyCombineOptions.builder()
            .logFmt(Constants.flag("args->log_fmt", NativeMemory.getInt(args + LOG_FMT)))
            .zeroCopy(Constants.flag("args->zero_copy", NativeMemory.getInt(args + ZERO_COPY)))
            .partialRounding(
                Constants.flag(
                    "args->partial_rounding", NativeMemory.getInt(args + PARTIAL_ROUNDING)))
            .order(
                Constants.flag("args->by_experts", NativeMemory.getInt(args + BY_EXPERTS))
                    ? CombineOrder.EXPERT
                    : CombineOrder.CHOICE)
            .returnHook(
                Constants.flag("args->return_hook", NativeMemory.getInt(args + RETURN_HOOK)))
            .execution(execution());
    Tensors.ifPresent("args->out", args + OUT, builder::out);
    Tensors.ifPresent("args->wait_stats", args + WAIT_STATS, builder::waitStats);
    options = builder.build();
  }

  /** Number of the dispatch whose rows are combined. */
  public long dispatched() {
    return object();
  }

  public Tensor y() {
    return given(y);
  }

  public Routing routing() {
    return given(routing);
  }

  public LowLatencyCombineOptions options() {
    return options;
  }
}
