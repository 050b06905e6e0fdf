package org.ep4j.cuda.engine.throughput;

import org.ep4j.Tokens;
import org.ep4j.config.Layout;
import org.ep4j.cuda.driver.CudaStream;
import org.ep4j.cuda.engine.context.CudaContext;
import org.ep4j.cuda.engine.context.Staging;
import org.ep4j.cuda.engine.launch.KernelCall;
import org.ep4j.cuda.struct.TransposeParameters;
import org.ep4j.tensor.DType;
import org.ep4j.tensor.ScaleLayout;
import org.ep4j.tensor.Tensor;

/**
 * Transposes received scales for {@link ScaleLayout#COLUMN_MAJOR}, in a kernel after the kernel
 * that delivers the rows. Only dispatches that request this layout launch it.
 */
final class ScaleTranspose {
  /** Columns have room for whole units of the smallest scales. */
  private static final DType SMALLEST = DType.UE8M0;

  private final CudaContext context;
  private final KernelCall<TransposeParameters> call;
  private final int localExperts;

  ScaleTranspose(CudaContext context) {
    this.context = context;
    call = context.kernels.transposeScales;
    localExperts = context.placement.localExperts(context.rank);
    TransposeParameters p = call.parameters;
    p.control.set(context.region.address());
    p.from.set(context.at(context.layout.received.scales));
    p.receipt.completed.set(context.words.completedOnDevice());
  }

  /**
   * Whether a dispatch must transpose its scales. Allocates the target before any kernel of the
   * dispatch waits for peers.
   */
  boolean prepare(CudaHandle handle, Tokens tokens) {
    Tensor scales = tokens.scales();
    if (scales == null || handle.scaleLayout == ScaleLayout.ROW_MAJOR) {
      return false;
    }
    long columns = tokens.scalesPerRow();
    TransposeParameters p = call.parameters;
    p.to.set(memory(context, scales.dtype().bytes(columns)));
    p.columns.set(columns);
    p.elementBytes.set(scales.dtype().bytes(1));
    return true;
  }

  /** Target of the transposed scales of rows with {@code rowBytes} bytes of scales. */
  static long memory(CudaContext context, long rowBytes) {
    long rows = ScaleLayout.columnLength(SMALLEST, context.layout.capacity);
    return context.staging.memory(Staging.Buffer.SCALE_COLUMNS, rows * rowBytes);
  }

  /**
   * Enqueues the transposition that {@link #prepare} has prepared.
   *
   * @param ticket ticket of the dispatch, which this kernel completes
   */
  void enqueue(CudaHandle handle, long ticket, CudaStream stream) {
    TransposeParameters p = call.parameters;
    HandleLayout at = handle.at();
    p.rows.set(
        handle.layout == Layout.FLAT
            ? handle.onDevice(at.flatRows)
            : handle.onDevice(at.groupStarts) + (long) localExperts * Integer.BYTES);
    p.limit.set(handle.limit);
    p.fixed.set(handle.staticSizing);
    p.receipt.ticket.set(ticket);
    call.launch(context.sms(), 0, stream.handle());
  }
}
