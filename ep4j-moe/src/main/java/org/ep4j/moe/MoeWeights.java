package org.ep4j.moe;

import java.util.List;
import java.util.Optional;
import org.ep4j.tensor.Tensor;

/**
 * Weights of a layer on one rank. Router and shared expert are the same on all ranks.
 *
 * @param router FP32 or BF16 [E, H]
 * @param bias FP32 [E], added to sigmoid scores for the choice
 * @param experts those of this rank, in the order of local numbers
 * @param shared the expert of every token, if the shape has one
 */
public record MoeWeights(
    Tensor router,
    Optional<Tensor> bias,
    List<ExpertWeights> experts,
    Optional<ExpertWeights> shared) {
  /** Copies the list. */
  public MoeWeights {
    experts = List.copyOf(experts);
  }

  /**
   * The same weights without matrices of FP8, which become FP32: on a GPU, they are then kept in
   * BF16, in twice the memory.
   */
  public MoeWeights dequantised() {
    return new MoeWeights(
        router,
        bias,
        experts.stream().map(ExpertWeights::dequantised).toList(),
        shared.map(ExpertWeights::dequantised));
  }
}
