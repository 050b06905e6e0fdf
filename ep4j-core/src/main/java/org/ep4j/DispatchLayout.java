package org.ep4j;

/**
 * What a routing means for the traffic of this rank, before anything is sent. Tensors are views
 * that stay valid until the next {@link ExpertBuffer#dispatchLayout(Routing)}.
 */
public interface DispatchLayout {
  /** INT32 [R]: tokens that go to each rank; a token counts once per rank. */
  Tensor tokensPerRank();

  /** INT32 [nodes]: tokens that go to each node; a token counts once per node. */
  Tensor tokensPerNode();

  /** INT32 [E]: tokens that go to each expert. */
  Tensor tokensPerExpert();

  /** UINT8 [T, R]: 1 where the token goes to the rank. */
  Tensor tokenInRank();
}
