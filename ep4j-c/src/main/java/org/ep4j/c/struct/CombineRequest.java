package org.ep4j.c.struct;

import java.lang.foreign.Arena;
import org.ep4j.CombineOptions;
import org.ep4j.CombineOrder;
import org.ep4j.error.ErrorCode;
import org.ep4j.error.InvalidArgumentException;
import org.ep4j.memory.NativeMemory;
import org.ep4j.tensor.Tensor;
import org.jspecify.annotations.Nullable;

/** {@code ep4j_combine_args}. */
public final class CombineRequest extends Request {
  public static final Struct ARGS = Struct.named("ep4j_combine_args");
  private static final long Y = ARGS.words("y", Tensors.TENSOR.size());
  private static final long HANDLE = ARGS.int64("handle");
  private static final long TOPK_WEIGHTS = ARGS.words("topk_weights", Tensors.TENSOR.size());
  private static final long BIAS0 = ARGS.words("bias0", Tensors.TENSOR.size());
  private static final long BIAS1 = ARGS.words("bias1", Tensors.TENSOR.size());
  private static final long OUT = ARGS.words("out", Tensors.TENSOR.size());
  private static final long EXECUTION = ARGS.words("execution", Request.EXECUTION.size());
  private static final long APPLY_WEIGHTS = ARGS.int32("apply_weights");
  private static final long SINGLE_ROUNDING = ARGS.int32("single_rounding");
  private static final long BY_EXPERTS = ARGS.int32("by_experts");

  static {
    ARGS.int32("reserved");
  }

  private @Nullable Tensor y;
  private CombineOptions options = CombineOptions.DEFAULT;

  public CombineRequest(Arena arena) {
    super(ARGS, HANDLE, EXECUTION, arena);
  }

  @Override
  void read(long args) {
    y = Tensors.require("args->y", args + Y);
    CombineOptions.Builder builder =
        CombineOptions.builder()
            .applyWeights(
                Constants.flag("args->apply_weights", NativeMemory.getInt(args + APPLY_WEIGHTS)))
            .partialRounding(
                !Constants.flag(
                    "args->single_rounding", NativeMemory.getInt(args + SINGLE_ROUNDING)))
            .order(
                Constants.flag("args->by_experts", NativeMemory.getInt(args + BY_EXPERTS))
                    ? CombineOrder.EXPERT
                    : CombineOrder.RANK)
            .execution(execution());
    Tensors.ifPresent("args->topk_weights", args + TOPK_WEIGHTS, builder::topkWeights);
    Tensor first = Tensors.read("args->bias0", args + BIAS0);
    Tensor second = Tensors.read("args->bias1", args + BIAS1);
    if (first == null && second != null) {
      throw new InvalidArgumentException(
          ErrorCode.OPTIONS_EXCLUSIVE,
          "args->bias1",
          second.toString(),
          "absent without bias0",
          "pass one bias as bias0");
    }
    if (first != null && second != null) {
      builder.bias(first, second);
    } else if (first != null) {
      builder.bias(first);
    }
    Tensors.ifPresent("args->out", args + OUT, builder::out);
    options = builder.build();
  }

  public Tensor y() {
    return given(y);
  }

  public CombineOptions options() {
    return options;
  }

  public long handle() {
    return object();
  }
}
