package org.ep4j.cuda.engine.throughput;

import org.ep4j.cuda.engine.context.CudaContext;
import org.ep4j.cuda.engine.context.RegionLayout;
import org.ep4j.cuda.engine.context.Staging;
import org.ep4j.engine.TensorMemory;
import org.ep4j.engine.throughput.DispatchResult;
import org.ep4j.engine.throughput.PooledHandle;

/**
 * What a dispatch delivers: rows and row metadata in the device's receive region, counts in the
 * page-locked memory of the handle, which kernels may read too.
 */
final class CudaDelivery implements DispatchResult.Delivery {
  private final CudaContext context;

  CudaDelivery(CudaContext context) {
    this.context = context;
  }

  @Override
  public TensorMemory memory(DispatchResult.Array array) {
    return context.deviceMemory;
  }

  @Override
  public long address(DispatchResult.Array array, long rowBytes) {
    RegionLayout.Arrays at = context.layout.received;
    return switch (array) {
      case ROWS -> context.at(at.rows);
      case SCALES -> context.at(at.scales);
      case SCALE_COLUMNS -> ScaleTranspose.memory(context, rowBytes);
      case GLOBAL_SCALES -> context.at(at.factors);
      case CHOICES -> context.at(at.ids);
      case WEIGHTS -> context.at(at.weights);
      case SOURCE_TOKENS -> context.at(at.tokens);
      case SOURCE_RANKS -> context.at(at.sources);
      case COMBINE_INPUT ->
          context.staging.memory(Staging.Buffer.COMBINE_INPUT, context.layout.capacity * rowBytes);
    };
  }

  @Override
  public TensorMemory memory(PooledHandle handle) {
    return ((CudaHandle) handle).counts();
  }

  @Override
  public long address(DispatchResult.Count count, PooledHandle handle) {
    CudaHandle routes = (CudaHandle) handle;
    HandleLayout at = routes.at();
    long offset =
        switch (count) {
          case ALIGNED -> at.aligned;
          case RECEIVED -> at.received;
          case EXPERT_OFFSETS -> at.expertOffsets;
          case RANK_OFFSETS -> at.rankOffsets;
        };
    return routes.counts().segment().address() + offset;
  }
}
