package org.ep4j.moe;

import static org.assertj.core.api.Assertions.assertThat;

import org.assertj.core.data.Offset;
import org.junit.jupiter.api.Test;

class ActivationTest {
  private static final int LENGTH = 40_001;

  /** From -100 to 100. */
  private static float at(int i) {
    return (i - LENGTH / 2) / 200f;
  }

  @Test
  void swiGluIsThatOfDoublePrecision() {
    var swished = new float[LENGTH];
    var linear = new float[LENGTH];
    for (int i = 0; i < LENGTH; i++) {
      swished[i] = at(i);
      linear[i] = 1 + i % 7;
    }
    var out = new float[LENGTH];
    Activation.forward(swished, linear, out);
    for (int i = 0; i < LENGTH; i++) {
      double silu = at(i) / (1 + Math.exp(-at(i)));
      assertClose(out[i], silu * linear[i]);
    }
  }

  @Test
  void itsGradientsAreThoseOfDoublePrecision() {
    var swished = new float[LENGTH];
    var linear = new float[LENGTH];
    var grad = new float[LENGTH];
    for (int i = 0; i < LENGTH; i++) {
      swished[i] = at(i);
      linear[i] = 1 + i % 7;
      grad[i] = 1 + i % 3;
    }
    Activation.backward(swished, linear, grad);
    for (int i = 0; i < LENGTH; i++) {
      double s = 1 / (1 + Math.exp(-at(i)));
      double ofSwished = grad[i] * (1 + i % 7) * s * (1 + at(i) * (1 - s));
      // The slope is a sum of parts that nearly cancel each other where it is 0.
      assertThat((double) swished[i])
          .isCloseTo(ofSwished, Offset.offset(3e-6 * (1 + Math.abs(ofSwished))));
      assertClose(linear[i], grad[i] * at(i) * s);
    }
  }

  @Test
  void scoresAreThoseOfDoublePrecision() {
    var values = new float[LENGTH];
    for (int i = 0; i < LENGTH; i++) {
      values[i] = at(i);
    }
    float[] sigmoids = values.clone();
    Activation.sigmoid(sigmoids, 3, LENGTH);
    float[] powers = values.clone();
    Activation.exp(powers, 3, LENGTH);
    for (int i = 3; i < LENGTH; i++) {
      assertClose(sigmoids[i], 1 / (1 + Math.exp(-at(i))));
      if (Math.abs(at(i)) < 87) {
        assertThat(powers[i] / Math.exp(at(i))).isCloseTo(1, Offset.offset(3e-7));
      }
    }
    assertThat(sigmoids).startsWith(at(0), at(1), at(2));
  }

  @Test
  void whatIsNoNumberStaysNone() {
    float[] values = {Float.NaN, Float.POSITIVE_INFINITY, Float.NEGATIVE_INFINITY};
    Activation.sigmoid(values, 0, 3);
    assertThat(values[0]).isNaN();
    assertThat(values[1]).isEqualTo(1);
    assertThat(values[2]).isLessThan(1e-30f).isNotNegative();
  }

  private static void assertClose(double value, double expected) {
    assertThat(value).isCloseTo(expected, Offset.offset(5e-7 * Math.abs(expected) + 1e-30));
  }
}
