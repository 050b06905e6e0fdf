package org.ep4j.moe;

import static org.assertj.core.api.Assertions.assertThat;

import java.util.List;

/** Compares results in BF16 with those of wider numbers. */
final class Closeness {
  /**
   * Bound of each difference over the largest element of its tensor. The roundings to BF16 on the
   * way are of 2^-9 each: rows, factors, SwiGLU, results, partial sums.
   */
  static final double BOUND = 0.012;

  /** The same where SwiGLU's result is quantised to FP8. */
  static final double QUANTISED_BOUND = 0.04;

  private Closeness() {}

  static void assertClose(String what, float[] actual, float[] expected) {
    assertClose(what, actual, expected, BOUND);
  }

  static void assertClose(String what, float[] actual, float[] expected, double bound) {
    assertThat(actual).as(what).hasSameSizeAs(expected);
    double largest = 0;
    double difference = 0;
    for (int i = 0; i < expected.length; i++) {
      assertThat(actual[i]).as(what).isFinite();
      largest = Math.max(largest, Math.abs(expected[i]));
      difference = Math.max(difference, Math.abs((double) actual[i] - expected[i]));
    }
    System.out.printf("  %s: %.5f of the largest%n", what, difference / largest);
    assertThat(largest).as(what).isPositive();
    assertThat(difference / largest).as(what).isLessThan(bound);
  }

  /** One behind the other. */
  static float[] joined(List<float[]> parts) {
    var all = new float[parts.stream().mapToInt(part -> part.length).sum()];
    int at = 0;
    for (float[] part : parts) {
      System.arraycopy(part, 0, all, at, part.length);
      at += part.length;
    }
    return all;
  }

  static float[] sum(List<float[]> parts) {
    var sum = new float[parts.getFirst().length];
    for (float[] part : parts) {
      for (int i = 0; i < sum.length; i++) {
        sum[i] += part[i];
      }
    }
    return sum;
  }
}
