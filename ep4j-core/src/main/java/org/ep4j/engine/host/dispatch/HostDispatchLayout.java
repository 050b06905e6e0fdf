package org.ep4j.engine.host.dispatch;

import java.lang.foreign.MemorySegment;
import org.ep4j.DType;
import org.ep4j.DispatchLayout;
import org.ep4j.Tensor;
import org.ep4j.engine.host.context.HostContext;
import org.ep4j.engine.host.context.TensorView;
import org.ep4j.engine.host.layout.ScratchLayout;

/** The result of the last layout of a buffer. One object per buffer. */
public final class HostDispatchLayout implements DispatchLayout {
  private final int ranks;
  private final int nodes;
  private final int experts;
  private final TensorView perRank;
  private final TensorView perNode;
  private final TensorView perExpert;
  private final TensorView tokenInRank;
  private int tokens;

  public HostDispatchLayout(ScratchLayout scratch, MemorySegment memory, HostContext context) {
    ranks = context.ranks;
    nodes = context.nodes.count();
    experts = context.placement.experts();
    perRank = new TensorView(memory, scratch.perRank);
    perNode = new TensorView(memory, scratch.perNode);
    perExpert = new TensorView(memory, scratch.perExpert);
    tokenInRank = new TensorView(memory, scratch.tokenInRank);
  }

  public void delivered(int tokens) {
    this.tokens = tokens;
  }

  @Override
  public Tensor tokensPerRank() {
    return perRank.of(DType.INT32, ranks);
  }

  @Override
  public Tensor tokensPerNode() {
    return perNode.of(DType.INT32, nodes);
  }

  @Override
  public Tensor tokensPerExpert() {
    return perExpert.of(DType.INT32, experts);
  }

  @Override
  public Tensor tokenInRank() {
    return tokenInRank.of(DType.UINT8, tokens, ranks);
  }
}
