package org.ep4j.moe;

import java.util.Arrays;
import java.util.Optional;
import org.ep4j.error.ErrorCode;
import org.ep4j.error.InvalidArgumentException;
import org.ep4j.routing.Routing;
import org.ep4j.tensor.Tensor;

/** The choice of experts, and its gradient. A token's choice depends on the token alone. */
final class Router {
  /** Keeps a sum of scores from being 0. */
  private static final float EPSILON = 1e-20f;

  private final RouterConfig config;

  /** [E, H] */
  private final Matrix weights;

  private final Matrix transposed;
  private final float[] bias;

  /**
   * The choices of tokens.
   *
   * @param scores [T, E]
   * @param ids [T, topK]; of equal scores the lower id first
   * @param routingWeights [T, topK]
   */
  @SuppressWarnings("ArrayRecordComponent") // not compared
  record Choices(Matrix scores, int[] ids, float[] routingWeights, int topK) {
    Routing routing() {
      return Routing.of(ids, routingWeights, topK);
    }
  }

  Router(RouterConfig config, Tensor weights, Optional<Tensor> bias, int hidden) {
    this.config = config;
    this.weights = Expert.matrix("router", weights, config.experts(), hidden);
    this.transposed = this.weights.transposed().copy();
    if (bias.isPresent() && config.scores() == RouterConfig.Scores.SOFTMAX) {
      throw new InvalidArgumentException(
          ErrorCode.MOE_SHAPE,
          "bias",
          bias.get().toString(),
          "missing for softmax scores",
          "pass Optional.empty()");
    }
    this.bias =
        bias.map(
                tensor ->
                    Expert.matrix("bias", tensor.reshape(1, tensor.elements()), 1, config.experts())
                        .values())
            .orElseGet(() -> new float[config.experts()]);
  }

  /** [E, H] */
  Matrix weights() {
    return weights;
  }

  /** [E], zeros if there is none. */
  float[] bias() {
    return bias;
  }

  Choices choose(Matrix x) {
    int experts = config.experts();
    Matrix scores = Matrix.zeros(x.rows(), experts);
    scores.addProduct(x, transposed);
    int topK = config.topK();
    var ids = new int[x.rows() * topK];
    var routingWeights = new float[x.rows() * topK];
    var wanted = new float[experts];
    for (int token = 0; token < x.rows(); token++) {
      requireFinite(scores.values(), token, experts);
      score(scores.values(), token * experts);
      for (int e = 0; e < experts; e++) {
        wanted[e] = scores.values()[token * experts + e] + bias[e];
      }
      keepTopGroups(wanted);
      choose(wanted, scores.values(), token, ids, routingWeights);
    }
    return new Choices(scores, ids, routingWeights, topK);
  }

  /** Without an order of the scores, there is no choice. */
  private static void requireFinite(float[] logits, int token, int experts) {
    for (int e = 0; e < experts; e++) {
      float logit = logits[token * experts + e];
      if (!Float.isFinite(logit)) {
        throw new InvalidArgumentException(
            ErrorCode.MOE_SCORES,
            "logit of token " + token + " for expert " + e,
            String.valueOf(logit),
            "finite",
            "look for such values in the token and in the router");
      }
    }
  }

  /** From logits to scores, in place. */
  private void score(float[] values, int from) {
    int to = from + config.experts();
    if (config.scores() == RouterConfig.Scores.SIGMOID) {
      Activation.sigmoid(values, from, to);
      return;
    }
    float largest = Float.NEGATIVE_INFINITY;
    for (int i = from; i < to; i++) {
      largest = Math.max(largest, values[i]);
    }
    for (int i = from; i < to; i++) {
      values[i] -= largest;
    }
    Activation.exp(values, from, to);
    float sum = 0;
    for (int i = from; i < to; i++) {
      sum += values[i];
    }
    for (int i = from; i < to; i++) {
      values[i] /= sum;
    }
  }

  /** Leaves the experts of the best groups; the others lose against every score. */
  private void keepTopGroups(float[] wanted) {
    int groups = config.groups();
    if (groups == 1) {
      return;
    }
    int each = wanted.length / groups;
    var ofGroup = new float[groups];
    for (int g = 0; g < groups; g++) {
      float first = Float.NEGATIVE_INFINITY;
      float second = Float.NEGATIVE_INFINITY;
      for (int e = g * each; e < (g + 1) * each; e++) {
        if (wanted[e] > first) {
          second = first;
          first = wanted[e];
        } else {
          second = Math.max(second, wanted[e]);
        }
      }
      ofGroup[g] = config.scores() == RouterConfig.Scores.SIGMOID ? first + second : first;
    }
    for (int n = groups; n > config.topGroups(); n--) {
      int worst = -1;
      for (int g = 0; g < groups; g++) {
        // Of equal groups the lower one stays.
        if (ofGroup[g] < Float.POSITIVE_INFINITY && (worst < 0 || ofGroup[g] <= ofGroup[worst])) {
          worst = g;
        }
      }
      ofGroup[worst] = Float.POSITIVE_INFINITY;
      Arrays.fill(wanted, worst * each, (worst + 1) * each, Float.NEGATIVE_INFINITY);
    }
  }

  private void choose(
      float[] wanted, float[] scores, int token, int[] ids, float[] routingWeights) {
    int topK = config.topK();
    float sum = 0;
    for (int k = token * topK; k < (token + 1) * topK; k++) {
      int best = 0;
      for (int e = 1; e < wanted.length; e++) {
        if (wanted[e] > wanted[best]) {
          best = e;
        }
      }
      ids[k] = best;
      routingWeights[k] = scores[token * wanted.length + best];
      sum += routingWeights[k];
      wanted[best] = Float.NEGATIVE_INFINITY;
    }
    for (int k = token * topK; k < (token + 1) * topK; k++) {
      if (config.normalized()) {
        routingWeights[k] /= sum + EPSILON;
      }
      routingWeights[k] *= config.scale();
    }
  }

  /**
   * Adds the gradient of the tokens to {@code gradOfX}, and returns that of the matrix. The choice
   * itself has none.
   *
   * @param gradOfWeights gradient of the routing weights, [T, topK]
   */
  Tensor backward(Matrix x, Choices choices, float[] gradOfWeights, Matrix gradOfX) {
    int experts = config.experts();
    Matrix gradOfLogits = Matrix.zeros(x.rows(), experts);
    for (int token = 0; token < x.rows(); token++) {
      gradOfScores(choices, gradOfWeights, token, gradOfLogits.values());
      gradOfLogits(choices.scores().values(), token * experts, gradOfLogits.values());
    }
    gradOfX.addProduct(gradOfLogits, weights);
    Matrix grad = Matrix.zeros(experts, weights.columns());
    grad.addProduct(gradOfLogits.transposed(), x);
    return Expert.tensor(grad);
  }

  private void gradOfScores(Choices choices, float[] gradOfWeights, int token, float[] grad) {
    int topK = config.topK();
    int row = token * config.experts();
    float[] scores = choices.scores().values();
    float sum = 0;
    float weighted = 0;
    for (int k = token * topK; k < (token + 1) * topK; k++) {
      float score = scores[row + choices.ids()[k]];
      sum += score;
      weighted += gradOfWeights[k] * score;
    }
    sum += EPSILON;
    for (int k = token * topK; k < (token + 1) * topK; k++) {
      float of = gradOfWeights[k];
      grad[row + choices.ids()[k]] =
          config.scale() * (config.normalized() ? (of - weighted / sum) / sum : of);
    }
  }

  /** From the gradient of scores to that of logits, in place. */
  private void gradOfLogits(float[] scores, int from, float[] grad) {
    int to = from + config.experts();
    if (config.scores() == RouterConfig.Scores.SIGMOID) {
      for (int i = from; i < to; i++) {
        grad[i] *= scores[i] * (1 - scores[i]);
      }
      return;
    }
    float sum = 0;
    for (int i = from; i < to; i++) {
      sum += grad[i] * scores[i];
    }
    for (int i = from; i < to; i++) {
      grad[i] = scores[i] * (grad[i] - sum);
    }
  }
}
