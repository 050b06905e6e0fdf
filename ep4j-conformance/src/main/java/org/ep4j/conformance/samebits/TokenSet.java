package org.ep4j.conformance.samebits;

import java.util.random.RandomGenerator;
import java.util.stream.IntStream;
import org.ep4j.tensor.DType;
import org.ep4j.tensor.FloatConversions;

/**
 * Tokens with experts and weights, whatever ranks they come from, and the result of each by
 * definition of {@link org.ep4j.CombineOrder#EXPERT}.
 */
final class TokenSet {
  final int experts;
  final int topK;
  final int hidden;
  final DType dtype;
  final int biases;

  /** Whether the combine multiplies by weights. */
  final boolean applied;

  /** By token: values, exact in the type of the rows. */
  final float[][] x;

  /** Row {@code biases * t + b}: bias b of token t. */
  final float[][] bias;

  /** By token and choice; -1 = none. */
  final long[][] ids;

  final float[][] weights;

  /** Draws tokens that fit into a buffer. */
  TokenSet(RandomGenerator random, TokenLimits limits) {
    experts = limits.experts();
    dtype = limits.dtypes().get(random.nextInt(limits.dtypes().size()));
    topK = 1 + random.nextInt(limits.topK());
    hidden = limits.hiddenUnit() * (1 + random.nextInt(limits.hidden() / limits.hiddenUnit()));
    biases = limits.lowLatency() ? 0 : random.nextInt(3);
    applied = limits.lowLatency() || random.nextBoolean();
    int tokens = 1 + random.nextInt(limits.tokens());
    x = new float[tokens][];
    bias = new float[biases * tokens][];
    ids = new long[tokens][];
    weights = new float[tokens][];
    for (int t = 0; t < tokens; t++) {
      x[t] = values(random);
      for (int b = 0; b < biases; b++) {
        bias[biases * t + b] = values(random);
      }
      int[] shuffled = shuffled(random, experts);
      ids[t] = new long[topK];
      weights[t] = new float[topK];
      for (int k = 0; k < topK; k++) {
        ids[t][k] = random.nextInt(8) == 0 ? -1 : shuffled[k];
        weights[t][k] = random.nextBoolean() ? 1 : random.nextFloat() * 2 - 0.5f;
      }
    }
  }

  static int[] shuffled(RandomGenerator random, int count) {
    int[] numbers = IntStream.range(0, count).toArray();
    for (int i = count - 1; i > 0; i--) {
      int j = random.nextInt(i + 1);
      int swap = numbers[i];
      numbers[i] = numbers[j];
      numbers[j] = swap;
    }
    return numbers;
  }

  /** Numbers of very different size: their sums depend on the order. */
  private float[] values(RandomGenerator random) {
    float[] row = new float[hidden];
    for (int i = 0; i < hidden; i++) {
      row[i] = rounded(Math.scalb((float) random.nextGaussian(), random.nextInt(12) - 6));
    }
    return row;
  }

  private float rounded(float value) {
    return switch (dtype) {
      case BF16 -> FloatConversions.bf16ToFloat(FloatConversions.floatToBf16(value));
      case FP16 -> Float.float16ToFloat(Float.floatToFloat16(value));
      default -> value;
    };
  }

  int tokens() {
    return x.length;
  }

  /**
   * What a logical expert makes of rows, in their type. Rows of two experts may cancel, those of a
   * third are lost beside them: the order of a sum shows in the bits of BF16, too.
   */
  float[] expert(long expert, float[] rows) {
    float[] out = new float[rows.length];
    for (int i = 0; i < rows.length; i++) {
      out[i] =
          switch ((int) (expert % 3)) {
            case 0 -> rows[i];
            case 1 -> -rows[i];
            default -> rounded(rows[i] * 0x1p-20f * (1 + 0.37f * expert));
          };
    }
    return out;
  }

  /** The result of a token: a function of its own row, experts, weights and biases. */
  float[] result(int token) {
    float[] sum = new float[hidden];
    for (int b = 0; b < biases; b++) {
      for (int i = 0; i < hidden; i++) {
        sum[i] += bias[biases * token + b][i];
      }
    }
    for (long expert = 0; expert < experts; expert++) {
      for (int k = 0; k < topK; k++) {
        if (ids[token][k] == expert) {
          float[] row = expert(expert, x[token]);
          for (int i = 0; i < hidden; i++) {
            sum[i] = Math.fma(row[i], applied ? weights[token][k] : 1, sum[i]);
          }
        }
      }
    }
    for (int i = 0; i < hidden; i++) {
      sum[i] = rounded(sum[i]);
    }
    return sum;
  }
}
