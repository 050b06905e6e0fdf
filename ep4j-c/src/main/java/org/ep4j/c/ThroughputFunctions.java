package org.ep4j.c;

import org.ep4j.Combine;
import org.ep4j.Dispatch;
import org.ep4j.DispatchLayout;
import org.ep4j.ExpertBuffer;
import org.ep4j.FlatDispatch;
import org.ep4j.GroupedDispatch;
import org.ep4j.RoutingCounts;
import org.ep4j.c.struct.CombineRequest;
import org.ep4j.c.struct.DispatchRequest;
import org.ep4j.c.struct.Struct;
import org.ep4j.c.struct.Tensors;
import org.ep4j.error.ReceiveOverflowException;
import org.ep4j.execution.Execution;
import org.ep4j.memory.NativeMemory;
import org.ep4j.routing.Routing;
import org.ep4j.tensor.DType;
import org.ep4j.tensor.ScaleLayout;

/** High-throughput operations. */
final class ThroughputFunctions {
  static final Struct LAYOUT = Struct.named("ep4j_layout_result");
  private static final long TOKENS_PER_RANK =
      LAYOUT.words("tokens_per_rank", Tensors.TENSOR.size());
  private static final long TOKENS_PER_NODE =
      LAYOUT.words("tokens_per_node", Tensors.TENSOR.size());
  private static final long TOKENS_PER_EXPERT =
      LAYOUT.words("tokens_per_expert", Tensors.TENSOR.size());
  private static final long TOKEN_IN_RANK = LAYOUT.words("token_in_rank", Tensors.TENSOR.size());

  static final Struct DISPATCHED = Struct.named("ep4j_dispatch_result");
  private static final long RESULT = DISPATCHED.int64("result");
  private static final long HANDLE = DISPATCHED.int64("handle");
  private static final long EVENT = DISPATCHED.int64("event");
  private static final long ROWS = DISPATCHED.int64("rows");
  private static final long X = DISPATCHED.words("x", Tensors.TENSOR.size());
  private static final long SCALES = DISPATCHED.words("scales", Tensors.TENSOR.size());
  private static final long GLOBAL_SCALES =
      DISPATCHED.words("global_scales", Tensors.TENSOR.size());
  private static final long TOPK_IDX = DISPATCHED.words("topk_idx", Tensors.TENSOR.size());
  private static final long TOPK_WEIGHTS = DISPATCHED.words("topk_weights", Tensors.TENSOR.size());
  private static final long ROW_WEIGHTS = DISPATCHED.words("row_weights", Tensors.TENSOR.size());
  private static final long SOURCE_TOKENS =
      DISPATCHED.words("source_tokens", Tensors.TENSOR.size());
  private static final long SOURCE_RANKS = DISPATCHED.words("source_ranks", Tensors.TENSOR.size());
  private static final long RECEIVED_ROWS = DISPATCHED.int64("received_rows");
  private static final long MISSING_ROWS = DISPATCHED.int64("missing_rows");
  private static final long ALIGNED_COUNTS =
      DISPATCHED.words("aligned_counts", Tensors.TENSOR.size());
  private static final long COUNTS = DISPATCHED.words("counts", Tensors.TENSOR.size());
  private static final long RANK_OFFSETS = DISPATCHED.words("rank_offsets", Tensors.TENSOR.size());
  private static final long EXPERT_OFFSETS =
      DISPATCHED.words("expert_offsets", Tensors.TENSOR.size());

  static final Struct COMBINED = Struct.named("ep4j_combine_result");
  private static final long SUM_RESULT = COMBINED.int64("result");
  private static final long SUM_EVENT = COMBINED.int64("event");
  private static final long SUMS = COMBINED.words("x", Tensors.TENSOR.size());
  private static final long SUM_WEIGHTS = COMBINED.words("topk_weights", Tensors.TENSOR.size());

  private static final String DISPATCH_KIND = "the result of a dispatch";
  private static final String COMBINE_KIND = "the result of a combine";

  private ThroughputFunctions() {}

  static int dispatchLayout(long buffer, long topkIdx, int experts, long result) {
    LAYOUT.require("result", result);
    Struct.requirePointer("topk_idx", topkIdx);
    ExpertBuffer found = BufferObject.of(buffer).buffer();
    DispatchLayout layout =
        found.dispatchLayout(Routing.of(Tensors.require("topk_idx", topkIdx)), experts);
    Tensors.write(result + TOKENS_PER_RANK, layout.tokensPerRank());
    Tensors.write(result + TOKENS_PER_NODE, layout.tokensPerNode());
    Tensors.write(result + TOKENS_PER_EXPERT, layout.tokensPerExpert());
    Tensors.write(result + TOKEN_IN_RANK, layout.tokenInRank());
    return 0;
  }

  /** The tensors of an {@code ep4j_layout_result} that the caller has filled in. */
  static RoutingCounts counts(String argument, long at) {
    return new RoutingCounts(
        Tensors.require(argument + "->tokens_per_rank", at + TOKENS_PER_RANK),
        Tensors.require(argument + "->tokens_per_node", at + TOKENS_PER_NODE),
        Tensors.require(argument + "->tokens_per_expert", at + TOKENS_PER_EXPERT),
        Tensors.require(argument + "->token_in_rank", at + TOKEN_IN_RANK));
  }

  static int dispatch(long buffer, long args, long result) {
    DISPATCHED.require("result", result);
    BufferObject found = BufferObject.enter(buffer);
    try {
      DispatchRequest request = found.dispatchRequest;
      request.take(args);
      Execution execution = request.options().execution();
      long handle = request.handle();
      boolean scaleColumns;
      Dispatch dispatch;
      if (handle == 0) {
        scaleColumns = request.options().scaleLayout() == ScaleLayout.COLUMN_MAJOR;
        dispatch =
            found
                .buffer()
                .dispatch(request.layout(), request.tokens(), request.routing(), request.options());
      } else {
        request.requireNoRouting();
        RoutesObject routes = RoutesObject.of(handle);
        scaleColumns = routes.scaleColumns();
        dispatch =
            found
                .buffer()
                .dispatch(routes.handle().layout(), request.tokens(), routes.handle(), execution);
      }
      ResultSlot slot = found.dispatched;
      NativeMemory.putLong(result + RESULT, slot.renew(dispatch, handle, scaleColumns));
      NativeMemory.putLong(result + EVENT, found.event(execution, dispatch.event()));
      clear(result);
      if (!execution.isAsync()) {
        fillRows(result, found, slot, dispatch);
        if (!request.options().sizing().isStatic() && handle == 0) {
          fillCounts(result, dispatch);
        }
      }
      return 0;
    } finally {
      found.leave();
    }
  }

  static int dispatchResult(long dispatched, long result) {
    DISPATCHED.require("result", result);
    ResultSlot slot = ResultSlot.enter("dispatched", dispatched);
    try {
      Dispatch dispatch = slot.result("dispatched", Dispatch.class, DISPATCH_KIND);
      NativeMemory.putLong(result + RESULT, slot.number());
      NativeMemory.putLong(result + EVENT, 0);
      clear(result);
      fillRows(result, slot.owner(), slot, dispatch);
      fillCounts(result, dispatch);
      return 0;
    } finally {
      slot.leave();
    }
  }

  static int combineInput(long dispatched, int dtype, long input) {
    Struct.requirePointer("input", input);
    DType type = Tensors.dtype("dtype", dtype);
    ResultSlot slot = ResultSlot.enter("dispatched", dispatched);
    try {
      Dispatch dispatch = slot.result("dispatched", Dispatch.class, DISPATCH_KIND);
      Tensors.write(input, dispatch.combineInput(type));
      return 0;
    } finally {
      slot.leave();
    }
  }

  static int combine(long buffer, long args, long result) {
    COMBINED.require("result", result);
    BufferObject found = BufferObject.enter(buffer);
    try {
      CombineRequest request = found.combineRequest;
      request.take(args);
      RoutesObject routes = RoutesObject.of(request.handle());
      Combine combine = found.buffer().combine(request.y(), routes.handle(), request.options());
      ResultSlot slot = found.combined;
      NativeMemory.putLong(result + SUM_RESULT, slot.renew(combine, 0, false));
      NativeMemory.putLong(
          result + SUM_EVENT, found.event(request.options().execution(), combine.event()));
      if (request.options().execution().isAsync()) {
        Tensors.writeNone(result + SUMS);
        Tensors.writeNone(result + SUM_WEIGHTS);
      } else {
        fill(result, combine);
      }
      return 0;
    } finally {
      found.leave();
    }
  }

  static int combineResult(long combined, long result) {
    COMBINED.require("result", result);
    ResultSlot slot = ResultSlot.enter("combined", combined);
    try {
      Combine combine = slot.result("combined", Combine.class, COMBINE_KIND);
      fill(result, combine);
      NativeMemory.putLong(result + SUM_RESULT, slot.number());
      NativeMemory.putLong(result + SUM_EVENT, 0);
      return 0;
    } finally {
      slot.leave();
    }
  }

  /** Writes that nothing is known yet. */
  private static void clear(long at) {
    NativeMemory.putLong(at + HANDLE, 0);
    NativeMemory.fill(at + ROWS, DISPATCHED.size() - ROWS, (byte) 0);
  }

  private static void fillRows(long at, BufferObject buffer, ResultSlot slot, Dispatch dispatch) {
    NativeMemory.putLong(at + ROWS, dispatch.rows());
    Tensors.write(at + X, dispatch.x());
    if (dispatch.hasScales()) {
      Tensors.writeScales(at + SCALES, dispatch.scales(), slot.scaleColumns(), dispatch.rows());
    }
    if (dispatch.hasGlobalScales()) {
      Tensors.write(at + GLOBAL_SCALES, dispatch.globalScales());
    }
    Tensors.write(at + SOURCE_TOKENS, dispatch.sourceTokens());
    Tensors.write(at + SOURCE_RANKS, dispatch.sourceRanks());
    switch (dispatch) {
      case FlatDispatch flat -> {
        if (flat.hasChoices()) {
          Tensors.write(at + TOPK_IDX, flat.topkIdx());
        }
        if (flat.hasWeights()) {
          Tensors.write(at + TOPK_WEIGHTS, flat.topkWeights());
        }
      }
      case GroupedDispatch grouped -> {
        if (grouped.hasWeights()) {
          Tensors.write(at + ROW_WEIGHTS, grouped.rowWeights());
        }
      }
      default -> throw new AssertionError(dispatch.getClass() + " is of no known layout");
    }
    if (slot.handle() == 0) {
      slot.handedOut(buffer.add(new RoutesObject(dispatch.handle(), slot.scaleColumns())));
    }
    NativeMemory.putLong(at + HANDLE, slot.handle());
  }

  private static void fillCounts(long at, Dispatch dispatch) {
    NativeMemory.putLong(at + RECEIVED_ROWS, dispatch.receivedRows());
    NativeMemory.putLong(
        at + MISSING_ROWS, dispatch.overflow().map(ThroughputFunctions::missing).orElse(0L));
    Tensors.write(at + ALIGNED_COUNTS, dispatch.alignedCounts());
    Tensors.write(at + COUNTS, dispatch.counts());
    if (dispatch instanceof FlatDispatch flat) {
      Tensors.write(at + RANK_OFFSETS, flat.rankOffsets());
    } else if (dispatch instanceof GroupedDispatch grouped) {
      Tensors.write(at + EXPERT_OFFSETS, grouped.expertOffsets());
    }
  }

  private static long missing(ReceiveOverflowException overflow) {
    return overflow.needed() - overflow.available();
  }

  private static void fill(long at, Combine combine) {
    Tensors.write(at + SUMS, combine.x());
    if (combine.hasWeights()) {
      Tensors.write(at + SUM_WEIGHTS, combine.topkWeights());
    } else {
      Tensors.writeNone(at + SUM_WEIGHTS);
    }
  }
}
