package org.ep4j;

import org.ep4j.routing.Routing;

/**
 * In which order a combine adds the rows of a token. Sums are in FP32, biases come first, and the
 * result is rounded once unless an option says otherwise.
 */
public enum CombineOrder {
  /**
   * High throughput, default: ascending ranks. EXPERT_MAJOR rows of a rank are first summed in
   * ascending order of local experts. The bits depend on which ranks own the experts of a token.
   */
  RANK,

  /**
   * Low latency, default: fused multiply-adds in the order in which {@link Routing#topkIdx()} lists
   * the choices of the token. The bits depend on the rows and the routing of the token alone.
   */
  CHOICE,

  /**
   * One chain of fused multiply-adds in ascending order of experts, logical ones if the routing has
   * {@link Routing#logicalIdx()}; without weights, of additions. The bits depend on the rows, the
   * experts, the weights and the biases of the token alone: not on the number of ranks, on nodes,
   * on where experts or their replicas lie, or on other tokens.
   *
   * <p>Only for rows of single experts, EXPERT_MAJOR. No rank and no node sums rows before they
   * travel, so between nodes each row of a token travels. On GPUs, high throughput needs rows that
   * peers can read, as {@link Dispatch#combineInput} gives them in a buffer opened with {@code
   * combineInPlace}, which between nodes is required, and sm_90 or later.
   */
  EXPERT
}
