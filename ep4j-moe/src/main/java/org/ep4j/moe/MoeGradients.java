package org.ep4j.moe;

import java.util.List;
import java.util.Optional;
import org.ep4j.tensor.Tensor;

/**
 * Gradients of a step, FP32 on the heap, owned by the caller.
 *
 * @param x [T, H]
 * @param router [E, H], from this rank's tokens; the caller adds those of other ranks
 * @param experts of this rank, from the tokens of all ranks
 * @param shared of the shared expert, from this rank's tokens; the caller adds those of other ranks
 */
public record MoeGradients(
    Tensor x, Tensor router, List<ExpertWeights> experts, Optional<ExpertWeights> shared) {
  /** Copies the list. */
  public MoeGradients {
    experts = List.copyOf(experts);
  }
}
