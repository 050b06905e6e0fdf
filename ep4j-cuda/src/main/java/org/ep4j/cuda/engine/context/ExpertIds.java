package org.ep4j.cuda.engine.context;

import org.ep4j.cuda.driver.CudaStream;
import org.ep4j.cuda.engine.launch.KernelCall;
import org.ep4j.cuda.engine.launch.Kernels;
import org.ep4j.cuda.struct.ExpertIdsParameters;
import org.ep4j.engine.CallExperts;
import org.ep4j.tensor.DType;
import org.ep4j.tensor.Tensor;

/**
 * Translates the ids of calls with fewer experts than the buffer, see {@link CallExperts}, in a
 * kernel in front of the kernel that takes the ids. Only such calls launch it.
 */
public final class ExpertIds {
  private final CudaContext context;
  private final KernelCall<ExpertIdsParameters> call;
  private final long number;
  private final long mark;
  private final long maxTokens;

  /**
   * Translation for one kind of operation.
   *
   * @param number address of the number of the last operation
   * @param mark bits that mark its numbers in the record of failures
   * @param maxTokens the most tokens of a call
   */
  public ExpertIds(CudaContext context, long number, long mark, long maxTokens) {
    this.context = context;
    call = context.kernels.expertIds;
    this.number = number;
    this.mark = mark;
    this.maxTokens = maxTokens;
  }

  /**
   * Enqueues the translation.
   *
   * @param given the ids
   * @param ids their address on the device
   * @param experts experts of the call, not those of the buffer
   * @return address of INT64 ids; operations use the memory in the order of their streams
   */
  public long enqueue(
      Staging.Buffer buffer, Tensor given, long ids, int experts, CudaStream stream) {
    // For the largest batch, so that a later call allocates nothing.
    long to = context.staging.memory(buffer, maxTokens * context.config.topK() * Long.BYTES);
    ExpertIdsParameters p = call.parameters;
    p.control.set(context.region.address());
    p.record.set(context.words.recordOnDevice());
    p.number.set(number);
    p.mark.set(mark);
    p.tokens.set(given.size(0));
    p.topK.set(given.size(1));
    p.ids.set(ids);
    p.wideIds.set(given.dtype() == DType.INT64);
    p.experts.set(experts);
    p.each.set(context.experts.local(experts));
    p.order.set(context.owners.address() + (long) context.config.experts() * Integer.BYTES);
    p.ranks.set(context.ranks);
    p.to.set(to);
    if (given.elements() > 0) {
      long blocks = Math.ceilDiv(given.elements(), (long) Kernels.LAYOUT_THREADS);
      call.launch((int) Math.min(context.sms(), blocks), 0, stream.handle());
    }
    return to;
  }
}
