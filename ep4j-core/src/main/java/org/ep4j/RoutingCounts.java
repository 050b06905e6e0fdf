package org.ep4j;

import org.ep4j.tensor.Tensor;

/**
 * Memory of the caller for what a {@link RoutingCounter} counts, all of it where the counter
 * counts. A count overwrites all elements.
 *
 * @param tokensPerRank INT32 [R]: tokens for each rank; a token counts once per rank
 * @param tokensPerNode INT32 [nodes]: tokens for each node; a token counts once per node
 * @param tokensPerExpert INT32 [E]: tokens for each expert; E is the number of experts of the call
 * @param tokenInRank UINT8 [T, R]: 1 if the token goes to the rank, otherwise 0
 */
public record RoutingCounts(
    Tensor tokensPerRank, Tensor tokensPerNode, Tensor tokensPerExpert, Tensor tokenInRank) {}
