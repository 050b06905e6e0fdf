package org.ep4j.moe;

import java.util.Optional;
import org.ep4j.tensor.DType;
import org.ep4j.tensor.Tensor;

/**
 * Matrices of a SwiGLU expert: {@code w2 · (silu(w1 · x) * (w3 · x))}. Host tensors of a
 * floating-point type, those of {@link DType#FP8_E4M3} with factors; {@link MoeLayer} copies them.
 *
 * @param w1 [I, H]; in checkpoints {@code w1} or {@code gate_proj}
 * @param w3 [I, H]; {@code w3} or {@code up_proj}
 * @param w2 [H, I]; {@code w2} or {@code down_proj}
 * @param factors of matrices of FP8
 */
public record ExpertWeights(Tensor w1, Tensor w3, Tensor w2, Optional<Factors> factors) {
  /** Rows and columns of a block of FP8 elements. */
  public static final int BLOCK = 128;

  /**
   * FP32 factors of the matrices, each [⌈rows / 128⌉, ⌈columns / 128⌉]: a weight is its element
   * times the factor of its block of 128 by 128.
   */
  public record Factors(Tensor w1, Tensor w3, Tensor w2) {}

  /** Matrices without factors. */
  public ExpertWeights(Tensor w1, Tensor w3, Tensor w2) {
    this(w1, w3, w2, Optional.empty());
  }

  /** The same weights in FP32. */
  public ExpertWeights dequantised() {
    return factors
        .map(
            of ->
                new ExpertWeights(
                    dequantised("w1", w1, of.w1),
                    dequantised("w3", w3, of.w3),
                    dequantised("w2", w2, of.w2)))
        .orElse(this);
  }

  private static Tensor dequantised(String name, Tensor tensor, Tensor factors) {
    int rows = Math.toIntExact(tensor.size(0));
    int columns = Math.toIntExact(tensor.size(1));
    return Expert.tensor(Expert.matrix(name, tensor, Optional.of(factors), rows, columns));
  }
}
