package org.ep4j.cli.bench;

import java.lang.foreign.MemorySegment;
import java.util.Objects;
import java.util.function.Consumer;
import org.ep4j.ExpertBuffer;
import org.ep4j.LowLatencyCombine;
import org.ep4j.LowLatencyCombineOptions;
import org.ep4j.LowLatencyDispatch;
import org.ep4j.LowLatencyDispatchOptions;
import org.ep4j.LowLatencyHandle;
import org.ep4j.tensor.DType;
import org.ep4j.tensor.Tensor;
import org.ep4j.verify.HostCopy;
import org.ep4j.verify.Inputs;
import org.ep4j.verify.Rows;

/**
 * A dispatch of low latency, the rows of the experts, and their combine, with tensors of the host.
 *
 * @param context the ranks
 * @param buffer the buffer
 * @param dispatching options of the dispatch
 * @param combining options of the combine
 * @param expertRows rows of the experts, unless they are in the region of the buffer
 */
record LowLatencyRound(
    RankContext context,
    ExpertBuffer buffer,
    LowLatencyDispatchOptions dispatching,
    LowLatencyCombineOptions combining,
    Tensor expertRows) {
  /** A round with rows that travel as {@code payload}. */
  static LowLatencyRound of(
      RankContext context,
      ExpertBuffer buffer,
      Payload payload,
      LowLatencyCombineOptions combining,
      Tensor expertRows) {
    LowLatencyDispatchOptions dispatching =
        LowLatencyDispatchOptions.builder()
            .format(Objects.requireNonNull(payload.lowLatency(), "checked before"))
            .returnHook(context.settings().options().hook())
            .build();
    return new LowLatencyRound(context, buffer, dispatching, combining, expertRows);
  }

  /** Options of combines, of both engines. */
  static LowLatencyCombineOptions.Builder combining(BenchSettings settings) {
    BenchSettings.LowLatencyVariant variant = settings.options();
    return LowLatencyCombineOptions.builder()
        .order(settings.lowLatencyOrder())
        .logFmt(variant.logFmt())
        .zeroCopy(variant.zeroCopy())
        .partialRounding(variant.partial())
        .returnHook(variant.hook());
  }

  /** Compares every byte of both results with the oracle; collective. */
  void verify(InputSet input) {
    run(input, true, _ -> {});
  }

  /** Runs the round with all ranks; collective. */
  void run(InputSet input, boolean checked, Consumer<Tensor> results) {
    run(input, new boolean[context.group().size()], checked, results);
  }

  /**
   * Runs the round; collective among the ranks that are not masked.
   *
   * @param masked ranks that all others mask
   * @param checked whether the oracle checks both results
   * @param results receives the tensors whose bytes the input determines
   */
  void run(InputSet input, boolean[] masked, boolean checked, Consumer<Tensor> results) {
    BenchSettings settings = context.settings();
    int rank = context.group().rank();
    LatencyOracle oracle = new LatencyOracle(settings, input.world(), masked);
    LowLatencyDispatch dispatch = dispatch(input);
    if (checked) {
      Rows sent = input.inputs().rows(Inputs.Part.PAYLOAD, DType.BF16, settings.hidden());
      context.verify(() -> oracle.checkDispatch(rank, dispatch, sent, dispatching));
    }
    int[] counts = oracle.receiveCounts(rank);
    Tensor received = dispatch.x();
    for (int group = 0; group < counts.length; group++) {
      results.accept(group(received, group, counts[group]));
    }
    fillExpertRows(input, dispatch.handle(), counts);
    LowLatencyCombine combine = combine(input, dispatch.handle());
    if (checked) {
      Rows returned = input.inputs().rows(Inputs.Part.EXPERT_OUTPUT, DType.BF16, settings.hidden());
      context.verify(() -> oracle.checkCombine(rank, combine.x(), returned, combining));
    }
    results.accept(combine.x());
  }

  /** The first {@code count} rows of a group. */
  private static Tensor group(Tensor rows, int group, int count) {
    long capacity = rows.size(1);
    return rows.reshape(rows.size(0) * capacity, rows.size(2))
        .rows(group * capacity, group * capacity + count);
  }

  /** Writes the rows of the experts, with zero-copy into the region of the buffer. */
  private void fillExpertRows(InputSet input, LowLatencyHandle handle, int[] counts) {
    Rows rows =
        input.inputs().rows(Inputs.Part.EXPERT_OUTPUT, DType.BF16, context.settings().hidden());
    Tensor target = combining.zeroCopy() ? buffer.lowLatencyCombineBuffer(handle) : expertRows;
    long rowBytes = DType.BF16.bytes(context.settings().hidden());
    for (int group = 0; group < counts.length; group++) {
      long first = group * target.size(1);
      int count = counts[group];
      HostCopy.write(
          group(target, group, count),
          bytes -> {
            for (int i = 0; i < count; i++) {
              MemorySegment row = rows.row(context.group().rank(), first + i);
              MemorySegment.copy(row, 0, bytes, i * rowBytes, rowBytes);
            }
          });
    }
  }

  /** Dispatches, including the receiving half. */
  LowLatencyDispatch dispatch(InputSet input) {
    LowLatencyDispatch dispatch =
        buffer.lowLatencyDispatch(
            context.settings().options().layout(),
            input.tokens().x(),
            input.routing(),
            dispatching);
    if (dispatching.returnHook()) {
      dispatch.hook().receive();
    }
    return dispatch;
  }

  /** Combines, including the receiving half. */
  LowLatencyCombine combine(InputSet input, LowLatencyHandle handle) {
    Tensor rows = combining.zeroCopy() ? buffer.lowLatencyCombineBuffer(handle) : expertRows;
    LowLatencyCombine combine = buffer.lowLatencyCombine(rows, input.routing(), handle, combining);
    if (combining.returnHook()) {
      combine.hook().receive();
    }
    return combine;
  }
}
