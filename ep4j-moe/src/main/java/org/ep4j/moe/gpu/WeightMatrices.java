package org.ep4j.moe.gpu;

import java.util.List;
import java.util.function.LongFunction;
import org.ep4j.moe.cublas.Product;

/**
 * Matrices of weights on a GPU, [experts, rows, columns], as products use them: {@link Bf16Weights}
 * or {@link Fp8Weights}.
 */
public sealed interface WeightMatrices permits Bf16Weights, Fp8Weights {
  /**
   * A product with the matrix of an expert.
   *
   * @param product from the address of the matrix in BF16
   */
  record ByExpert(int expert, LongFunction<Product> product) {}

  /**
   * Enqueues a product.
   *
   * @param scratch of the pass
   */
  void multiply(WorkQueue queue, DeviceScratch scratch, ByExpert product);

  /** Enqueues products of new BF16 results that do not overlap. */
  void multiplyAll(WorkQueue queue, DeviceScratch scratch, List<ByExpert> products);

  /**
   * Enqueues {@code out = x · weightsᵀ} for few rows of BF16, whose numbers the host does not know.
   *
   * @param x [experts, places, columns], of which each expert has the first ones
   * @param counts INT32 [experts], on the GPU
   * @param out [experts, places, rows]
   */
  void multiplyFew(WorkQueue queue, long x, long counts, long places, long out);
}
