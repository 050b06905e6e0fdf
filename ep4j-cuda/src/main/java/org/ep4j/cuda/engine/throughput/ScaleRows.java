package org.ep4j.cuda.engine.throughput;

import org.ep4j.Tokens;
import org.ep4j.cuda.driver.CudaStream;
import org.ep4j.cuda.engine.context.CudaContext;
import org.ep4j.cuda.engine.context.Staging;
import org.ep4j.cuda.engine.launch.KernelCall;
import org.ep4j.cuda.struct.ScaleRowsParameters;
import org.ep4j.engine.Limits;
import org.ep4j.tensor.DType;
import org.ep4j.tensor.ScaleLayout;
import org.ep4j.tensor.Tensor;

/**
 * Turns scales that a caller gives by columns, {@link ScaleLayout#COLUMN_MAJOR}, into rows, in a
 * kernel in front of the kernel that sends the rows. Only dispatches of such scales launch it.
 */
final class ScaleRows {
  private final CudaContext context;
  private final KernelCall<ScaleRowsParameters> call;

  ScaleRows(CudaContext context) {
    this.context = context;
    call = context.kernels.scaleRows;
  }

  /**
   * Enqueues the transposition.
   *
   * @param scales the scales by columns
   * @param columns address of the columns on the device
   * @return address of the rows; operations use the memory in the order of their streams
   */
  long enqueue(Tokens tokens, Tensor scales, long columns, CudaStream stream) {
    DType dtype = scales.dtype();
    // For the largest batch, so that a later dispatch of such scales allocates nothing.
    long largest = Limits.tokens(context.config) * dtype.bytes(tokens.scalesPerRow());
    long rows = context.staging.memory(Staging.Buffer.SCALE_ROWS, largest);
    ScaleRowsParameters p = call.parameters;
    p.from.set(columns);
    p.to.set(rows);
    p.tokens.set(tokens.tokens());
    p.columns.set(tokens.scalesPerRow());
    p.length.set(scales.size(1));
    p.elementBytes.set(dtype.bytes(1));
    call.launch(context.sms(), 0, stream.handle());
    return rows;
  }
}
