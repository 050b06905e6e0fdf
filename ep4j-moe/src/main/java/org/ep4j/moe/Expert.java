package org.ep4j.moe;

import java.util.Arrays;
import java.util.Optional;
import org.ep4j.error.ErrorCode;
import org.ep4j.error.InvalidArgumentException;
import org.ep4j.tensor.DType;
import org.ep4j.tensor.Tensor;

/** A SwiGLU expert: its matrices, forward and backward pass over rows. */
final class Expert {
  private final Matrix w1;
  private final Matrix w3;
  private final Matrix w2;

  // A product reads its right factor along rows.
  private final Matrix w1Transposed;
  private final Matrix w3Transposed;
  private final Matrix w2Transposed;

  /**
   * What the backward pass needs.
   *
   * @param x [rows, H]
   * @param swished {@code x · w1ᵀ}, [rows, I]
   * @param linear {@code x · w3ᵀ}, [rows, I]
   */
  record Activations(Matrix x, Matrix swished, Matrix linear) {}

  Expert(String name, ExpertWeights weights, int hidden, int intermediate) {
    Optional<ExpertWeights.Factors> factors = weights.factors();
    w1 = matrix(name + ".w1", weights.w1(), factors.map(f -> f.w1()), intermediate, hidden);
    w3 = matrix(name + ".w3", weights.w3(), factors.map(f -> f.w3()), intermediate, hidden);
    w2 = matrix(name + ".w2", weights.w2(), factors.map(f -> f.w2()), hidden, intermediate);
    w1Transposed = w1.transposed().copy();
    w3Transposed = w3.transposed().copy();
    w2Transposed = w2.transposed().copy();
  }

  /** Values of a tensor of one shape, with factors of blocks or without. */
  static Matrix matrix(
      String name, Tensor tensor, Optional<Tensor> factors, int rows, int columns) {
    if (factors.isEmpty()) {
      return matrix(name, tensor, rows, columns);
    }
    float[] ofBlocks = factors(name, tensor, factors.get(), rows, columns);
    float[] values = tensor.toFloatArray();
    int block = ExpertWeights.BLOCK;
    int across = (columns + block - 1) / block;
    for (int row = 0; row < rows; row++) {
      for (int first = 0; first < columns; first += block) {
        float factor = ofBlocks[row / block * across + first / block];
        int end = row * columns + Math.min(first + block, columns);
        for (int i = row * columns + first; i < end; i++) {
          values[i] *= factor;
        }
      }
    }
    return Matrix.of(values, rows, columns);
  }

  /** Factors of the blocks of a matrix of FP8, which is checked too. */
  static float[] factors(String name, Tensor tensor, Tensor factors, int rows, int columns) {
    checkShape(name, tensor, rows, columns);
    if (tensor.onDevice() || tensor.dtype() != DType.FP8_E4M3) {
      throw new InvalidArgumentException(
          ErrorCode.MOE_SHAPE,
          name,
          tensor.toString(),
          DType.FP8_E4M3 + " in host memory, because it has factors",
          "pass factors with matrices of FP8 alone");
    }
    int block = ExpertWeights.BLOCK;
    return matrix(
            name + " factors", factors, (rows + block - 1) / block, (columns + block - 1) / block)
        .values();
  }

  private static void checkShape(String name, Tensor tensor, int rows, int columns) {
    if (!Arrays.equals(tensor.shape(), new long[] {rows, columns})) {
      throw new InvalidArgumentException(
          ErrorCode.MOE_SHAPE,
          name,
          tensor.toString(),
          "[" + rows + ", " + columns + "]",
          "pass weights of the layer's shape");
    }
  }

  /** Values of a tensor of one shape. */
  static Matrix matrix(String name, Tensor tensor, int rows, int columns) {
    checkMatrix(name, tensor, rows, columns);
    return Matrix.of(tensor.toFloatArray(), rows, columns);
  }

  /** Checks a matrix that has no factors. */
  static void checkMatrix(String name, Tensor tensor, int rows, int columns) {
    checkShape(name, tensor, rows, columns);
    if (tensor.onDevice() || !tensor.dtype().floating() || tensor.dtype().bits() < Short.SIZE) {
      throw new InvalidArgumentException(
          ErrorCode.MOE_SHAPE,
          name,
          tensor.toString(),
          DType.FP32 + ", " + DType.BF16 + " or " + DType.FP16 + " in host memory",
          "convert it");
    }
  }

  Activations activate(Matrix x) {
    Matrix swished = Matrix.zeros(x.rows(), w1.rows());
    swished.addProduct(x, w1Transposed);
    Matrix linear = Matrix.zeros(x.rows(), w3.rows());
    linear.addProduct(x, w3Transposed);
    return new Activations(x, swished, linear);
  }

  /** Adds the results of rows to {@code out}. */
  void forward(Activations activations, Matrix out) {
    out.addProduct(product(activations), w2Transposed);
  }

  /**
   * Adds the gradients of the rows to {@code gradOfX}, and returns those of the matrices.
   * Overwrites the activations.
   *
   * @param grad gradient of the results, [rows, H]
   */
  ExpertWeights backward(Activations activations, Matrix grad, Matrix gradOfX) {
    Matrix inner = product(activations);
    Matrix gradOfW2 = Matrix.zeros(w2.rows(), w2.columns());
    gradOfW2.addProduct(grad.transposed(), inner);

    Matrix gradOfInner = Matrix.zeros(inner.rows(), inner.columns());
    gradOfInner.addProduct(grad, w2);
    Matrix swished = activations.swished();
    Matrix linear = activations.linear();
    Activation.backward(swished.values(), linear.values(), gradOfInner.values());

    Matrix gradOfW1 = Matrix.zeros(w1.rows(), w1.columns());
    gradOfW1.addProduct(swished.transposed(), activations.x());
    Matrix gradOfW3 = Matrix.zeros(w3.rows(), w3.columns());
    gradOfW3.addProduct(linear.transposed(), activations.x());
    gradOfX.addProduct(swished, w1);
    gradOfX.addProduct(linear, w3);
    return new ExpertWeights(tensor(gradOfW1), tensor(gradOfW3), tensor(gradOfW2));
  }

  /** Gradients of an expert without rows. */
  ExpertWeights zeroGradients() {
    return new ExpertWeights(
        tensor(Matrix.zeros(w1.rows(), w1.columns())),
        tensor(Matrix.zeros(w3.rows(), w3.columns())),
        tensor(Matrix.zeros(w2.rows(), w2.columns())));
  }

  private static Matrix product(Activations activations) {
    Matrix swished = activations.swished();
    Matrix inner = Matrix.zeros(swished.rows(), swished.columns());
    Activation.forward(swished.values(), activations.linear().values(), inner.values());
    return inner;
  }

  static Tensor tensor(Matrix matrix) {
    return Tensor.of(matrix.values(), matrix.rows(), matrix.columns());
  }
}
