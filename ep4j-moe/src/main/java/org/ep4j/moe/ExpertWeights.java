package org.ep4j.moe;

import org.ep4j.tensor.Tensor;

/**
 * Matrices of a SwiGLU expert: {@code w2 · (silu(w1 · x) * (w3 · x))}. Host tensors of a
 * floating-point type without scales; {@link MoeLayer} copies them.
 *
 * @param w1 [I, H]; in checkpoints {@code w1} or {@code gate_proj}
 * @param w3 [I, H]; {@code w3} or {@code up_proj}
 * @param w2 [H, I]; {@code w2} or {@code down_proj}
 */
public record ExpertWeights(Tensor w1, Tensor w3, Tensor w2) {}
