package org.ep4j.moe;

import java.util.Arrays;
import java.util.stream.IntStream;
import jdk.incubator.vector.FloatVector;
import jdk.incubator.vector.IntVector;
import jdk.incubator.vector.VectorOperators;
import jdk.incubator.vector.VectorSpecies;

/**
 * SwiGLU, element by element: {@code silu(swished) * linear}, where {@code silu(v) = v *
 * sigmoid(v)}. Shazeer, "GLU Variants Improve Transformer", 2020.
 *
 * <p>Only products, sums, quotients and fused multiply-adds, which IEEE 754 rounds the same way
 * everywhere: results do not depend on the machine.
 */
final class Activation {
  private static final VectorSpecies<Float> SPECIES = FloatVector.SPECIES_PREFERRED;
  private static final VectorSpecies<Integer> INTS =
      VectorSpecies.of(int.class, SPECIES.vectorShape());
  private static final int LANES = SPECIES.length();

  /** Elements of a task. */
  private static final int BLOCK = 1 << 14;

  // Vectors, not numbers: an operation with a number costs C2 half as many nodes more, and a method
  // that exceeds its limit of nodes makes objects of vectors.

  /** Beyond these arguments, exp is not a normal number. */
  private static final FloatVector LARGEST = FloatVector.broadcast(SPECIES, 88);

  private static final FloatVector SMALLEST = FloatVector.broadcast(SPECIES, -87);
  private static final FloatVector LOG2_E = FloatVector.broadcast(SPECIES, 0x1.715476p0f);

  /** Adding and taking away 1.5 * 2^23 rounds to an integer. */
  private static final FloatVector ROUNDING = FloatVector.broadcast(SPECIES, 0x1.8p23f);

  /** -ln 2 in two parts: a product of the first with a small integer is exact. */
  private static final FloatVector MINUS_LN2_HIGH = FloatVector.broadcast(SPECIES, -0x1.62e4p-1f);

  private static final FloatVector MINUS_LN2_LOW =
      FloatVector.broadcast(SPECIES, (float) (0x1.62e4p-1 - 0.6931471805599453));

  /** 1 / n! from n = 8 to 2. */
  private static final FloatVector TERM_8 = FloatVector.broadcast(SPECIES, 1 / 40320f);

  private static final FloatVector TERM_7 = FloatVector.broadcast(SPECIES, 1 / 5040f);
  private static final FloatVector TERM_6 = FloatVector.broadcast(SPECIES, 1 / 720f);
  private static final FloatVector TERM_5 = FloatVector.broadcast(SPECIES, 1 / 120f);
  private static final FloatVector TERM_4 = FloatVector.broadcast(SPECIES, 1 / 24f);
  private static final FloatVector TERM_3 = FloatVector.broadcast(SPECIES, 1 / 6f);
  private static final FloatVector TERM_2 = FloatVector.broadcast(SPECIES, 1 / 2f);
  private static final FloatVector ONE = FloatVector.broadcast(SPECIES, 1);

  private static final IntVector EXPONENT_BIAS = IntVector.broadcast(INTS, 127);
  private static final int FRACTION_BITS = 23;

  private Activation() {}

  /**
   * {@code exp(values[i])} in place, for i in [from, to).
   *
   * <p>exp(n ln 2 + r) = 2^n exp(r) with |r| at most ln 2 / 2; exp(r) by the first nine terms of
   * its series, whose remainder is below 3e-10 there.
   */
  static void exp(float[] values, int from, int to) {
    for (int i = from; i < to; i += LANES) {
      boolean whole = to - i >= LANES;
      // Masks would cost a third of the nodes.
      float[] array = whole ? values : Arrays.copyOfRange(values, i, i + LANES);
      int at = whole ? i : 0;
      FloatVector bounded = FloatVector.fromArray(SPECIES, array, at).min(LARGEST).max(SMALLEST);
      FloatVector shifted = bounded.mul(LOG2_E).add(ROUNDING);
      FloatVector n = shifted.sub(ROUNDING);
      FloatVector r = n.fma(MINUS_LN2_LOW, n.fma(MINUS_LN2_HIGH, bounded));
      FloatVector sum = TERM_8.fma(r, TERM_7).fma(r, TERM_6).fma(r, TERM_5).fma(r, TERM_4);
      sum = sum.fma(r, TERM_3).fma(r, TERM_2).fma(r, ONE).fma(r, ONE);
      // The last bits of the shifted number are n; the shift drops all others.
      IntVector exponent = shifted.reinterpretAsInts().add(EXPONENT_BIAS);
      sum.mul(exponent.lanewise(VectorOperators.LSHL, FRACTION_BITS).reinterpretAsFloats())
          .intoArray(array, at);
      if (!whole) {
        System.arraycopy(array, 0, values, i, to - i);
      }
    }
  }

  /** {@code sigmoid(values[i])} in place, for i in [from, to). */
  static void sigmoid(float[] values, int from, int to) {
    for (int i = from; i < to; i++) {
      values[i] = -values[i];
    }
    exp(values, from, to);
    for (int i = from; i < to; i++) {
      values[i] = 1 / (values[i] + 1);
    }
  }

  /** Writes {@code silu(swished) * linear} to {@code out}; three arrays of the same length. */
  static void forward(float[] swished, float[] linear, float[] out) {
    blocks(
        out.length,
        (from, to) -> {
          System.arraycopy(swished, from, out, from, to - from);
          sigmoid(out, from, to);
          for (int i = from; i < to; i++) {
            out[i] = swished[i] * out[i] * linear[i];
          }
        });
  }

  /**
   * The gradients of both factors, in place of the factors.
   *
   * @param gradOfOut gradient of the result of {@link #forward}
   */
  static void backward(float[] swished, float[] linear, float[] gradOfOut) {
    blocks(
        gradOfOut.length,
        (from, to) -> {
          float[] sigmoids = Arrays.copyOfRange(swished, from, to);
          sigmoid(sigmoids, 0, sigmoids.length);
          for (int i = from; i < to; i++) {
            float s = sigmoids[i - from];
            float silu = swished[i] * s;
            // silu' = s + silu * (1 - s)
            float slope = Math.fma(silu, 1 - s, s);
            swished[i] = gradOfOut[i] * linear[i] * slope;
            linear[i] = gradOfOut[i] * silu;
          }
        });
  }

  /** Work on the elements [from, to). */
  @FunctionalInterface
  private interface Block {
    void run(int from, int to);
  }

  private static void blocks(int length, Block task) {
    IntStream.range(0, (length + BLOCK - 1) / BLOCK)
        .parallel()
        .forEach(block -> task.run(block * BLOCK, Math.min(length, (block + 1) * BLOCK)));
  }
}
