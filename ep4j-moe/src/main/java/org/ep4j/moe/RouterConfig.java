package org.ep4j.moe;

import org.ep4j.config.BufferConfig;
import org.ep4j.error.ErrorCode;
import org.ep4j.error.InvalidArgumentException;

/**
 * How tokens choose experts: from the logits of all experts to {@code topK} experts and their
 * weights.
 *
 * @param experts number of experts
 * @param topK experts of a token
 * @param scores from logits to scores
 * @param normalized whether the scores of the chosen experts are divided by their sum
 * @param scale factor of the weights, after the division
 * @param groups the experts form so many groups of neighbours; 1 = no groups
 * @param topGroups a token chooses among the experts of so many groups
 */
public record RouterConfig(
    int experts,
    int topK,
    Scores scores,
    boolean normalized,
    float scale,
    int groups,
    int topGroups) {

  /** From logits to scores. */
  public enum Scores {
    /** Softmax over all experts. The score of a group is the largest of its experts. */
    SOFTMAX,
    /**
     * Sigmoid of each logit. A bias counts for the choice, and not for the weight. The score of a
     * group is the sum of the two largest of its experts, biases included. DeepSeek-AI,
     * "DeepSeek-V3 Technical Report", 2024, section 2.1.
     */
    SIGMOID
  }

  /**
   * @throws InvalidArgumentException if a number is out of range, or the groups do not divide the
   *     experts
   */
  public RouterConfig {
    range("experts", experts, 1, MoeShape.LARGEST);
    range("topK", topK, 1, Math.min(experts, BufferConfig.MAX_TOP_K));
    range("groups", groups, 1, experts);
    range("topGroups", topGroups, 1, groups);
    if (experts % groups != 0) {
      throw refused("groups", groups, "a divisor of " + experts + " experts");
    }
    int each = experts / groups;
    if (groups > 1 && scores == Scores.SIGMOID && each < 2) {
      throw refused("groups", groups, "at most " + experts / 2 + ", two experts each");
    }
    if (topK > topGroups * each) {
      throw refused(
          "topK", topK, "at most the " + topGroups * each + " experts of " + topGroups + " groups");
    }
    if (!(scale > 0) || scale == Float.POSITIVE_INFINITY) {
      throw new InvalidArgumentException(
          ErrorCode.MOE_SHAPE, "scale", String.valueOf(scale), "positive and finite", "correct it");
    }
  }

  /** Normalized softmax without groups, as in Mixtral and Qwen3-MoE. */
  public static RouterConfig softmax(int experts, int topK) {
    return new RouterConfig(experts, topK, Scores.SOFTMAX, true, 1, 1, 1);
  }

  /** Normalized sigmoid scores with a bias, as in DeepSeek-V3. */
  public static RouterConfig sigmoid(
      int experts, int topK, int groups, int topGroups, float scale) {
    return new RouterConfig(experts, topK, Scores.SIGMOID, true, scale, groups, topGroups);
  }

  static void range(String argument, int value, int from, int to) {
    if (value < from || value > to) {
      throw refused(argument, value, from + " to " + to);
    }
  }

  private static InvalidArgumentException refused(String argument, int value, String limit) {
    return new InvalidArgumentException(
        ErrorCode.MOE_SHAPE,
        argument,
        String.valueOf(value),
        limit,
        "pass the numbers of one model");
  }
}
