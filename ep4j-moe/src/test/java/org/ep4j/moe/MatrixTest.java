package org.ep4j.moe;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import java.util.Random;
import org.junit.jupiter.api.Test;

class MatrixTest {
  /** Shapes with and without whole tiles, and with more terms than stay in registers. */
  private static final int[][] SHAPES = {
    {1, 1, 1}, {4, 64, 32}, {7, 300, 41}, {70, 600, 270}, {1, 1000, 513}, {129, 3, 20}, {0, 5, 5}
  };

  @Test
  void aProductIsOneChainOfFusedMultiplyAddsForEachElement() {
    var random = new Random(1);
    for (int[] shape : SHAPES) {
      Matrix left = random(random, shape[0], shape[1]);
      Matrix right = random(random, shape[1], shape[2]);
      Matrix sum = random(random, shape[0], shape[2]);
      float[] expected = expected(left, right, sum);
      sum.addProduct(left, right);
      assertThat(sum.values()).containsExactly(expected);
    }
  }

  @Test
  void aTransposedFactorIsReadInPlace() {
    var random = new Random(2);
    for (int[] shape : SHAPES) {
      Matrix left = random(random, shape[1], shape[0]).transposed();
      Matrix right = random(random, shape[1], shape[2]);
      Matrix sum = Matrix.zeros(shape[0], shape[2]);
      float[] expected = expected(left, right, sum);
      sum.addProduct(left, right);
      assertThat(sum.values()).containsExactly(expected);
      assertThat(expected(left.copy(), right, Matrix.zeros(shape[0], shape[2])))
          .containsExactly(expected);
    }
  }

  @Test
  void aRowDoesNotDependOnTheOthers() {
    var random = new Random(3);
    Matrix left = random(random, 70, 500);
    Matrix right = random(random, 500, 300);
    Matrix all = Matrix.zeros(70, 300);
    all.addProduct(left, right);
    for (int row : new int[] {0, 5, 69}) {
      Matrix alone = Matrix.zeros(1, 300);
      alone.addProduct(left.rows(row, row + 1), right);
      assertThat(alone.values()).containsExactly(all.rows(row, row + 1).copy().values());
    }
  }

  @Test
  void shapesThatDoNotFitAreRefused() {
    assertThatThrownBy(() -> Matrix.zeros(2, 2).addProduct(Matrix.zeros(2, 3), Matrix.zeros(2, 2)))
        .isInstanceOf(IllegalArgumentException.class);
    Matrix transposed = Matrix.zeros(2, 2).transposed();
    assertThatThrownBy(() -> Matrix.zeros(2, 2).addProduct(transposed, transposed))
        .isInstanceOf(IllegalArgumentException.class);
  }

  private static Matrix random(Random random, int rows, int columns) {
    return Matrix.of(PlainMoe.values(random, rows * columns, 1), rows, columns);
  }

  private static float[] expected(Matrix left, Matrix right, Matrix start) {
    float[] sums = start.values().clone();
    for (int i = 0; i < left.rows(); i++) {
      for (int j = 0; j < right.columns(); j++) {
        for (int t = 0; t < right.rows(); t++) {
          float factor = left.values()[i * left.rowStride() + t * left.columnStride()];
          float term = right.values()[t * right.columns() + j];
          sums[i * right.columns() + j] = Math.fma(factor, term, sums[i * right.columns() + j]);
        }
      }
    }
    return sums;
  }
}
