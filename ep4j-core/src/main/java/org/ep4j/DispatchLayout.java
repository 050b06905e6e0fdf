package org.ep4j;

import org.ep4j.routing.Routing;
import org.ep4j.tensor.Tensor;

/**
 * Traffic that a routing causes on this rank, computed before anything is sent. Tensors are views,
 * valid until the next {@link ExpertBuffer#dispatchLayout(Routing)}.
 */
public interface DispatchLayout {
  /** INT32 [R]: tokens sent to each rank; a token counts once per rank. */
  Tensor tokensPerRank();

  /** INT32 [nodes]: tokens sent to each node; a token counts once per node. */
  Tensor tokensPerNode();

  /** INT32 [E]: tokens sent to each expert. */
  Tensor tokensPerExpert();

  /** UINT8 [T, R]: 1 if the token is sent to the rank. */
  Tensor tokenInRank();
}
