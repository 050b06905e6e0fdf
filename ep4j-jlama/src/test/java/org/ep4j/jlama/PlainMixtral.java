package org.ep4j.jlama;

import java.util.Arrays;
import java.util.Comparator;
import java.util.List;
import java.util.function.DoubleUnaryOperator;
import java.util.function.IntPredicate;
import java.util.stream.IntStream;

/**
 * The truth: a Mixtral in plain arithmetic, in double precision, that recomputes every token.
 *
 * @param roundedFrom the first position whose rows to and from experts are rounded to BF16, and
 *     whose sums are too
 * @param lossAt the first position whose token cannot use the lost experts
 */
record PlainMixtral(TinyMixtral model, int roundedFrom, int lossAt, IntPredicate lost) {
  /** All experts, and no rounding. */
  static PlainMixtral exact(TinyMixtral model) {
    return rounded(model, Integer.MAX_VALUE);
  }

  /** All experts. */
  static PlainMixtral rounded(TinyMixtral model, int roundedFrom) {
    return new PlainMixtral(model, roundedFrom, Integer.MAX_VALUE, expert -> false);
  }

  /** Logits behind the last token. */
  double[] logits(List<Integer> context) {
    int[] tokens = context.stream().mapToInt(token -> token).toArray();
    double[][] x = new double[tokens.length][];
    for (int t = 0; t < tokens.length; t++) {
      x[t] = row(model.weight("model.embed_tokens.weight"), tokens[t]);
    }
    for (int layer = 0; layer < model.layers(); layer++) {
      String prefix = "model.layers." + layer + ".";
      double[][] normal = normal(x, prefix + "input_layernorm.weight");
      double[][] attended = attention(prefix + "self_attn.", normal);
      add(x, attended);
      double[][] second = normal(x, prefix + "post_attention_layernorm.weight");
      for (int t = 0; t < x.length; t++) {
        second[t] = experts(prefix + "block_sparse_moe.", second[t], t);
      }
      add(x, second);
    }
    double[] last = normal(x, "model.norm.weight")[x.length - 1];
    return product("lm_head.weight", last);
  }

  private double[] experts(String prefix, double[] row, int position) {
    double[] scores = product(prefix + "gate.weight", row);
    List<Integer> chosen =
        IntStream.range(0, model.experts())
            .filter(expert -> position < lossAt || !lost.test(expert))
            .boxed()
            .sorted(Comparator.comparingDouble(expert -> -scores[expert]))
            .limit(model.topK())
            .toList();
    DoubleUnaryOperator rounding = position < roundedFrom ? value -> value : PlainMixtral::rounded;
    double[] x = Arrays.stream(row).map(rounding).toArray();
    double sum = chosen.stream().mapToDouble(expert -> Math.exp(scores[expert])).sum();
    double[] result = new double[model.hidden()];
    for (int expert : chosen) {
      String name = prefix + "experts." + expert + ".";
      double[] inner = product(name + "w1.weight", x);
      double[] up = product(name + "w3.weight", x);
      for (int i = 0; i < inner.length; i++) {
        inner[i] = inner[i] / (1 + Math.exp(-inner[i])) * up[i];
      }
      double[] down = product(name + "w2.weight", inner);
      for (int i = 0; i < result.length; i++) {
        result[i] += Math.exp(scores[expert]) / sum * rounding.applyAsDouble(down[i]);
      }
    }
    return Arrays.stream(result).map(rounding).toArray();
  }

  /** To BF16, ties to even. */
  private static double rounded(double value) {
    int bits = Float.floatToRawIntBits((float) value);
    return Float.intBitsToFloat((bits + 0x7fff + (bits >>> 16 & 1)) & 0xffff_0000);
  }

  private double[][] attention(String prefix, double[][] x) {
    int size = headSize();
    double[][] keys = new double[x.length][];
    double[][] values = new double[x.length][];
    double[][] result = new double[x.length][];
    for (int t = 0; t < x.length; t++) {
      keys[t] = rotated(product(prefix + "k_proj.weight", x[t]), t);
      values[t] = product(prefix + "v_proj.weight", x[t]);
      double[] query = rotated(product(prefix + "q_proj.weight", x[t]), t);
      double[] heads = new double[model.hidden()];
      for (int head = 0; head < model.heads(); head++) {
        int from = head * size;
        int keyFrom = head / (model.heads() / model.keyHeads()) * size;
        double[] shares = new double[t + 1];
        double sum = 0;
        for (int s = 0; s <= t; s++) {
          double score = 0;
          for (int i = 0; i < size; i++) {
            score += query[from + i] * keys[s][keyFrom + i];
          }
          shares[s] = Math.exp(score / Math.sqrt(size));
          sum += shares[s];
        }
        for (int s = 0; s <= t; s++) {
          for (int i = 0; i < size; i++) {
            heads[from + i] += shares[s] / sum * values[s][keyFrom + i];
          }
        }
      }
      result[t] = product(prefix + "o_proj.weight", heads);
    }
    return result;
  }

  private int headSize() {
    return model.hidden() / model.heads();
  }

  private double[] rotated(double[] x, int position) {
    double[] y = x.clone();
    int size = headSize();
    int half = size / 2;
    for (int from = 0; from < x.length; from += size) {
      for (int i = 0; i < half; i++) {
        double angle = position / Math.pow(TinyMixtral.THETA, 2.0 * i / size);
        double a = x[from + i];
        double b = x[from + i + half];
        y[from + i] = a * Math.cos(angle) - b * Math.sin(angle);
        y[from + i + half] = a * Math.sin(angle) + b * Math.cos(angle);
      }
    }
    return y;
  }

  private double[][] normal(double[][] x, String name) {
    float[] weight = model.weight(name);
    double[][] y = new double[x.length][];
    for (int t = 0; t < x.length; t++) {
      double mean = Arrays.stream(x[t]).map(v -> v * v).average().orElseThrow();
      y[t] = new double[x[t].length];
      for (int i = 0; i < y[t].length; i++) {
        y[t][i] = x[t][i] / Math.sqrt(mean + TinyMixtral.EPSILON) * weight[i];
      }
    }
    return y;
  }

  private double[] product(String name, double[] x) {
    float[] weight = model.weight(name);
    double[] y = new double[weight.length / x.length];
    for (int row = 0; row < y.length; row++) {
      for (int i = 0; i < x.length; i++) {
        y[row] += weight[row * x.length + i] * x[i];
      }
    }
    return y;
  }

  private double[] row(float[] matrix, int row) {
    double[] values = new double[model.hidden()];
    for (int i = 0; i < values.length; i++) {
      values[i] = matrix[row * values.length + i];
    }
    return values;
  }

  private static void add(double[][] to, double[][] values) {
    for (int t = 0; t < to.length; t++) {
      for (int i = 0; i < to[t].length; i++) {
        to[t][i] += values[t][i];
      }
    }
  }
}
