package org.ep4j.engine.host.dispatch;

import java.lang.foreign.MemorySegment;
import org.ep4j.DispatchLayout;
import org.ep4j.engine.SegmentMemory;
import org.ep4j.engine.host.context.HostContext;
import org.ep4j.engine.host.layout.HighThroughputLayout.ScratchLayout;
import org.ep4j.engine.throughput.TensorView;
import org.ep4j.tensor.DType;
import org.ep4j.tensor.Tensor;

/** The result of the last layout of a buffer. One object per buffer. */
public final class HostDispatchLayout implements DispatchLayout {
  private final int ranks;
  private final int nodes;
  private final ScratchLayout scratch;
  private final SegmentMemory memory;
  private final TensorView perRank = new TensorView();
  private final TensorView perNode = new TensorView();
  private final TensorView perExpert = new TensorView();
  private final TensorView tokenInRank = new TensorView();
  private int tokens;
  private int experts;

  public HostDispatchLayout(ScratchLayout scratch, MemorySegment memory, HostContext context) {
    ranks = context.ranks;
    nodes = context.nodes.count();
    this.scratch = scratch;
    this.memory = new SegmentMemory(memory);
  }

  public void delivered(int tokens, int experts) {
    this.tokens = tokens;
    this.experts = experts;
  }

  private long at(long offset) {
    return memory.segment().address() + offset;
  }

  @Override
  public Tensor tokensPerRank() {
    return perRank.of(memory, at(scratch.perRank), DType.INT32, ranks);
  }

  @Override
  public Tensor tokensPerNode() {
    return perNode.of(memory, at(scratch.perNode), DType.INT32, nodes);
  }

  @Override
  public Tensor tokensPerExpert() {
    return perExpert.of(memory, at(scratch.perExpert), DType.INT32, experts);
  }

  @Override
  public Tensor tokenInRank() {
    return tokenInRank.of(memory, at(scratch.tokenInRank), DType.UINT8, tokens, ranks);
  }
}
