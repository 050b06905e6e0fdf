package org.ep4j.moe;

import org.ep4j.GroupedDispatch;
import org.ep4j.LowLatencyDispatch;
import org.ep4j.Tokens;
import org.ep4j.moe.gpu.DeviceScratch;
import org.ep4j.moe.gpu.MoeKernel;
import org.ep4j.moe.gpu.WorkQueue;
import org.ep4j.tensor.DType;
import org.ep4j.tensor.RowFormat;
import org.ep4j.tensor.Tensor;

/**
 * Rows on a GPU: tokens as they are sent, and received rows as experts read them, in BF16. The bits
 * are those of {@link HostRows}.
 */
final class DeviceRows {
  private final RowTypes types;
  private final int hidden;

  DeviceRows(RowTypes types, int hidden) {
    this.types = types;
    this.hidden = hidden;
  }

  /** Tokens for high throughput, after the work of the queue. */
  Tokens sent(WorkQueue queue, DeviceScratch memory, Tensor x) {
    if (!types.quantised()) {
      return Tokens.of(x);
    }
    long tokens = x.size(0);
    long blocks = x.elements() / RowTypes.BLOCK;
    long rows = memory.take(x.elements());
    long scales = memory.take(DType.FP32.bytes(blocks));
    quantise(queue, x.address(), rows, scales, blocks);
    return Tokens.of(
        Tensor.ofDevice(rows, x.device(), DType.FP8_E4M3, tokens, hidden),
        Tensor.ofDevice(scales, x.device(), DType.FP32, tokens, hidden / RowTypes.BLOCK));
  }

  /**
   * Enqueues the quantisation of BF16 elements.
   *
   * @param codes where to put an FP8 code for each element
   * @param scales where to put an FP32 scale for each block
   * @param blocks of {@link RowTypes#BLOCK} elements
   */
  static void quantise(WorkQueue queue, long from, long codes, long scales, long blocks) {
    // A warp takes two blocks.
    queue.launch(
        MoeKernel.QUANTISE,
        MoeKernel.QUANTISE.blocksOfWarps((blocks + 1) / 2),
        0,
        from,
        codes,
        scales,
        blocks);
  }

  /** What low latency makes of tokens. */
  RowFormat lowLatencyFormat() {
    return types.quantised() ? RowFormat.FP8 : RowFormat.BF16;
  }

  /**
   * Received rows, [N, H].
   *
   * @return an address in {@code memory}, or that of the rows themselves
   */
  long received(WorkQueue queue, DeviceScratch memory, GroupedDispatch dispatch) {
    Tensor rows = dispatch.x();
    return dispatch.hasScales()
        ? dequantised(queue, memory, rows, dispatch.scales(), 0, 1, rows.size(0))
        : rows.address();
  }

  /** Received rows, [N, H], in {@code memory}. */
  long copied(WorkQueue queue, DeviceScratch memory, GroupedDispatch dispatch) {
    if (dispatch.hasScales()) {
      return received(queue, memory, dispatch);
    }
    Tensor rows = dispatch.x();
    long copy = memory.take(rows.byteSize());
    queue.copy(copy, rows.address(), rows.byteSize());
    return copy;
  }

  /** Received rows, [E, places, H], of which each expert has the first ones. */
  long received(WorkQueue queue, DeviceScratch memory, LowLatencyDispatch dispatch) {
    Tensor rows = dispatch.x();
    return dispatch.hasScales()
        ? dequantised(
            queue,
            memory,
            rows,
            dispatch.scales(),
            dispatch.counts().address(),
            rows.size(0),
            rows.size(1))
        : rows.address();
  }

  /**
   * Enqueues the products of rows and scales.
   *
   * @param counts address of the numbers of rows of the groups; 0: all places have rows
   * @param places of each group
   */
  private long dequantised(
      WorkQueue queue,
      DeviceScratch memory,
      Tensor rows,
      Tensor scales,
      long counts,
      long groups,
      long places) {
    long out = memory.take(DType.BF16.bytes(rows.elements()));
    queue.launch(
        MoeKernel.DEQUANTISE,
        MoeKernel.DEQUANTISE.blocksOfWarps(groups * places),
        0,
        rows.address(),
        scales.address(),
        counts,
        places,
        groups,
        hidden,
        out);
    return out;
  }
}
