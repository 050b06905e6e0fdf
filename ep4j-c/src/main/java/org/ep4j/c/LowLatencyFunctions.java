package org.ep4j.c;

import org.ep4j.LowLatencyCombine;
import org.ep4j.LowLatencyDispatch;
import org.ep4j.RankMajorDispatch;
import org.ep4j.c.struct.LowLatencyCombineRequest;
import org.ep4j.c.struct.LowLatencyDispatchRequest;
import org.ep4j.c.struct.Struct;
import org.ep4j.c.struct.Tensors;
import org.ep4j.execution.ReceiveHook;
import org.ep4j.memory.NativeMemory;
import org.ep4j.tensor.ScaleLayout;
import org.ep4j.tensor.Tensor;

/** Low-latency operations. */
final class LowLatencyFunctions {
  static final Struct DISPATCHED = Struct.named("ep4j_low_latency_dispatch_result");
  private static final long RESULT = DISPATCHED.int64("result");
  private static final long EVENT = DISPATCHED.int64("event");
  private static final long X = DISPATCHED.words("x", Tensors.TENSOR.size());
  private static final long SCALES = DISPATCHED.words("scales", Tensors.TENSOR.size());
  private static final long COUNTS = DISPATCHED.words("counts", Tensors.TENSOR.size());
  private static final long TOPK_IDX = DISPATCHED.words("topk_idx", Tensors.TENSOR.size());
  private static final long TOPK_WEIGHTS = DISPATCHED.words("topk_weights", Tensors.TENSOR.size());
  private static final long ROW_WEIGHTS = DISPATCHED.words("row_weights", Tensors.TENSOR.size());
  private static final long SRC_INFO = DISPATCHED.words("src_info", Tensors.TENSOR.size());
  private static final long LAYOUT_RANGE = DISPATCHED.words("layout_range", Tensors.TENSOR.size());

  static final Struct COMBINED = Struct.named("ep4j_low_latency_combine_result");
  private static final long SUM_RESULT = COMBINED.int64("result");
  private static final long SUM_EVENT = COMBINED.int64("event");
  private static final long SUMS = COMBINED.words("x", Tensors.TENSOR.size());

  private static final String DISPATCH_KIND = "the result of a low-latency dispatch";
  private static final String COMBINE_KIND = "the result of a low-latency combine";
  private static final String HOOK_KIND = "a low-latency operation with return_hook";

  private LowLatencyFunctions() {}

  static int lowLatencyDispatch(long buffer, long args, long result) {
    DISPATCHED.require("result", result);
    BufferObject found = BufferObject.enter(buffer);
    try {
      LowLatencyDispatchRequest request = found.lowLatencyDispatchRequest;
      request.take(args);
      var options = request.options();
      LowLatencyDispatch dispatch =
          found
              .buffer()
              .lowLatencyDispatch(request.layout(), request.x(), request.routing(), options)
              .pending();
      ResultSlot slot = found.nextLowLatencyDispatch();
      boolean byColumns = options.scaleLayout() == ScaleLayout.COLUMN_MAJOR;
      NativeMemory.putLong(result + RESULT, slot.renew(dispatch, 0, byColumns));
      NativeMemory.putLong(result + EVENT, found.event(options.execution(), dispatch.event()));
      clear(result);
      if (!options.execution().isAsync()) {
        fill(result, slot, dispatch);
      }
      return 0;
    } finally {
      found.leave();
    }
  }

  static int lowLatencyDispatchResult(long dispatched, long result) {
    DISPATCHED.require("result", result);
    ResultSlot slot = ResultSlot.enter("dispatched", dispatched);
    try {
      LowLatencyDispatch dispatch =
          slot.result("dispatched", LowLatencyDispatch.class, DISPATCH_KIND);
      NativeMemory.putLong(result + RESULT, slot.number());
      NativeMemory.putLong(result + EVENT, 0);
      clear(result);
      fill(result, slot, dispatch);
      return 0;
    } finally {
      slot.leave();
    }
  }

  static int lowLatencyCombineInput(long dispatched, long input) {
    Struct.requirePointer("input", input);
    ResultSlot slot = ResultSlot.enter("dispatched", dispatched);
    try {
      LowLatencyDispatch dispatch =
          slot.result("dispatched", LowLatencyDispatch.class, DISPATCH_KIND);
      Tensors.write(input, slot.owner().buffer().lowLatencyCombineBuffer(dispatch.handle()));
      return 0;
    } finally {
      slot.leave();
    }
  }

  static int lowLatencyCombine(long buffer, long args, long result) {
    COMBINED.require("result", result);
    BufferObject found = BufferObject.enter(buffer);
    try {
      LowLatencyCombineRequest request = found.lowLatencyCombineRequest;
      request.take(args);
      var options = request.options();
      LowLatencyDispatch dispatch =
          ResultSlot.of("args->dispatched", request.dispatched())
              .result("args->dispatched", LowLatencyDispatch.class, DISPATCH_KIND);
      LowLatencyCombine combine =
          found
              .buffer()
              .lowLatencyCombine(request.y(), request.routing(), dispatch.handle(), options);
      ResultSlot slot = found.nextLowLatencyCombine();
      NativeMemory.putLong(result + SUM_RESULT, slot.renew(combine, 0, false));
      NativeMemory.putLong(result + SUM_EVENT, found.event(options.execution(), combine.event()));
      if (options.returnHook() || options.execution().isAsync()) {
        Tensors.writeNone(result + SUMS);
      } else {
        Tensors.write(result + SUMS, combine.x());
      }
      return 0;
    } finally {
      found.leave();
    }
  }

  static int lowLatencyCombineResult(long combined, long result) {
    COMBINED.require("result", result);
    ResultSlot slot = ResultSlot.enter("combined", combined);
    try {
      LowLatencyCombine combine = slot.result("combined", LowLatencyCombine.class, COMBINE_KIND);
      Tensors.write(result + SUMS, combine.x());
      NativeMemory.putLong(result + SUM_RESULT, slot.number());
      NativeMemory.putLong(result + SUM_EVENT, 0);
      return 0;
    } finally {
      slot.leave();
    }
  }

  static int lowLatencyReceive(long operation) {
    ResultSlot slot = ResultSlot.enter("operation", operation);
    try {
      ReceiveHook hook =
          switch (slot.result("operation", Object.class, HOOK_KIND)) {
            case LowLatencyDispatch dispatch -> dispatch.hook();
            case LowLatencyCombine combine -> combine.hook();
            default -> throw ResultSlot.otherOperation("operation", operation, HOOK_KIND);
          };
      hook.receive();
      return 0;
    } finally {
      slot.leave();
    }
  }

  private static void clear(long at) {
    NativeMemory.fill(at + X, DISPATCHED.size() - X, (byte) 0);
  }

  private static void fill(long at, ResultSlot slot, LowLatencyDispatch dispatch) {
    Tensor x = dispatch.x();
    Tensors.write(at + X, x);
    if (dispatch.hasScales()) {
      Tensors.writeScales(at + SCALES, dispatch.scales(), slot.scaleColumns(), x.size(1));
    }
    Tensors.write(at + COUNTS, dispatch.counts());
    if (dispatch instanceof RankMajorDispatch byRank) {
      Tensors.write(at + TOPK_IDX, byRank.topkIdx());
      if (byRank.hasWeights()) {
        Tensors.write(at + TOPK_WEIGHTS, byRank.topkWeights());
      }
    } else if (dispatch.hasWeights()) {
      Tensors.write(at + ROW_WEIGHTS, dispatch.rowWeights());
    }
    Tensors.write(at + SRC_INFO, dispatch.handle().srcInfo());
    Tensors.write(at + LAYOUT_RANGE, dispatch.handle().layoutRange());
  }
}
