package org.ep4j.cuda.engine.throughput;

import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import org.ep4j.DispatchLayout;
import org.ep4j.cuda.driver.CudaStream;
import org.ep4j.cuda.driver.DeviceCopies;
import org.ep4j.cuda.driver.PinnedMemory;
import org.ep4j.cuda.engine.context.CudaContext;
import org.ep4j.cuda.engine.context.ExpertIds;
import org.ep4j.cuda.engine.context.Staging;
import org.ep4j.cuda.engine.launch.KernelCall;
import org.ep4j.cuda.engine.launch.Kernels;
import org.ep4j.cuda.struct.Control;
import org.ep4j.cuda.struct.LayoutParameters;
import org.ep4j.engine.Limits;
import org.ep4j.engine.SegmentMemory;
import org.ep4j.engine.throughput.TensorView;
import org.ep4j.routing.Routing;
import org.ep4j.tensor.DType;
import org.ep4j.tensor.Tensor;

/**
 * Counts of a routing: computed on the device, reported in page-locked host memory; the table of
 * tokens and ranks stays on the device. One object per buffer.
 */
public final class CudaDispatchLayout implements DispatchLayout, AutoCloseable {
  private static final int TOKENS_OF_BLOCK = Kernels.LAYOUT_THREADS;

  private final CudaContext context;
  private final PinnedMemory counts;
  private final long countBytes;

  /** Start of the counts of experts, after those of ranks and nodes. */
  private final long experts;

  private final SegmentMemory hostMemory;
  private final TensorView tokenInRank = new TensorView();
  private final TensorView perRank = new TensorView();
  private final TensorView perNode = new TensorView();
  private final TensorView perExpert = new TensorView();
  private long tokens;
  private int callExperts;
  private final ExpertIds expertIds;

  public CudaDispatchLayout(CudaContext context) {
    this.context = context;
    int nodes = context.nodes.count();
    experts = (context.ranks + (long) nodes) * Integer.BYTES;
    countBytes = OperationMemory.layoutCounts(context.config, context.nodes);
    counts = PinnedMemory.allocate(context.device, countBytes);
    hostMemory = new SegmentMemory(counts.segment());
    long epoch = context.region.address() + Control.WORDS.epoch.offset();
    expertIds = new ExpertIds(context, epoch, 0, Limits.tokens(context.config));
  }

  /**
   * Counts a valid routing; returns when the counts have arrived.
   *
   * @param all experts of the call
   */
  public void count(Routing routing, int all) {
    callExperts = all;
    int[] ofBuffer = context.experts.ofBuffer(all);
    tokens = routing.tokens();
    CudaStream stream = context.stream;
    long table = table();
    long onDevice = context.staging.memory(Staging.Buffer.LAYOUT, countBytes);
    Tensor ids = routing.topkIdx();
    KernelCall<LayoutParameters> call = context.kernels.layout;
    LayoutParameters p = call.parameters;
    p.control.set(context.region.address());
    p.ranks.set(context.ranks);
    p.experts.set(context.config.experts());
    p.placement.set(context.owners.address());
    p.tokens.set(tokens);
    p.topK.set(routing.topK());
    long given = context.staging.address(Staging.Buffer.IDS, ids, stream);
    p.wideIds.set(ofBuffer != null || ids.dtype() == DType.INT64);
    p.perRank.set(onDevice);
    p.perNode.set(onDevice + (long) context.ranks * Integer.BYTES);
    p.perExpert.set(onDevice + experts);
    p.inRank.set(table);
    p.nodeOf.set(context.internode == null ? 0 : context.internode.nodeOf());
    p.record.set(context.words.recordOnDevice());
    DeviceCopies.fill8(onDevice, (byte) 0, countBytes, stream);
    context.region.fill8(Control.WORDS.claimed.offset(), Long.BYTES, (byte) 0, stream);
    p.ids.set(
        ofBuffer == null
            ? given
            : expertIds.enqueue(Staging.Buffer.EXPERT_IDS, ids, given, all, stream));
    if (tokens > 0) {
      DeviceCopies.fill8(table, (byte) 0, tokens * context.ranks, stream);
      int blocks = (int) Math.min(context.sms(), Math.ceilDiv(tokens, TOKENS_OF_BLOCK));
      call.launch(blocks, 0, stream.handle());
    }
    DeviceCopies.toHost(counts.segment().asSlice(0, countBytes), onDevice, stream);
    stream.synchronize();
    context.completion.check("dispatchLayout");
    if (ofBuffer != null) {
      sort(ofBuffer);
    }
  }

  /** Puts the counts of the call's experts first. */
  private void sort(int[] ofBuffer) {
    MemorySegment all = counts.segment().asSlice(experts);
    int[] ofCall = new int[ofBuffer.length];
    for (int e = 0; e < ofCall.length; e++) {
      ofCall[e] = all.getAtIndex(ValueLayout.JAVA_INT, ofBuffer[e]);
    }
    MemorySegment.copy(ofCall, 0, all, ValueLayout.JAVA_INT, 0, ofCall.length);
  }

  private long at(long offset) {
    return counts.hostAddress() + offset;
  }

  private long table() {
    return context.staging.memory(
        Staging.Buffer.TOKEN_IN_RANK, OperationMemory.tokenInRank(context.config));
  }

  @Override
  public Tensor tokensPerRank() {
    return perRank.of(hostMemory, at(0), DType.INT32, context.ranks);
  }

  @Override
  public Tensor tokensPerNode() {
    return perNode.of(
        hostMemory, at((long) context.ranks * Integer.BYTES), DType.INT32, context.nodes.count());
  }

  @Override
  public Tensor tokensPerExpert() {
    return perExpert.of(hostMemory, at(experts), DType.INT32, callExperts);
  }

  @Override
  public Tensor tokenInRank() {
    return tokenInRank.of(context.deviceMemory, table(), DType.UINT8, tokens, context.ranks);
  }

  @Override
  public void close() {
    counts.close();
  }
}
