package org.ep4j.spark;

import org.ep4j.ExpertBuffer;
import org.ep4j.config.BufferConfig;
import org.ep4j.config.HighThroughputConfig;
import org.ep4j.group.Group;
import org.ep4j.routing.Routing;
import org.ep4j.tensor.DType;
import org.ep4j.tensor.Tensor;

/** Dispatch, experts and combine, and the same in plain arithmetic. All values are exact. */
final class Step {
  private static final int HIDDEN = 4;
  private static final int TOKENS = 3;

  /** Two experts a rank. */
  private static final int LOCAL = 2;

  private static final float[] SHARES = {.75f, .25f};

  private Step() {}

  /**
   * The sums of this rank's tokens; expert e multiplies by e + 1.
   *
   * @param ranksPerNode as in {@link BufferConfig}
   */
  static float[] run(Group group, int ranksPerNode) {
    int rank = group.rank();
    int experts = LOCAL * group.size();
    var config =
        BufferConfig.builder()
            .hidden(HIDDEN)
            .topK(SHARES.length)
            .experts(experts)
            .ranksPerNode(ranksPerNode)
            .highThroughput(
                HighThroughputConfig.builder().maxTokens(TOKENS).rowDType(DType.FP32).build())
            .build();
    float[] x = new float[TOKENS * HIDDEN];
    int[] choices = new int[TOKENS * SHARES.length];
    float[] weights = new float[choices.length];
    for (int token = 0; token < TOKENS; token++) {
      for (int i = 0; i < HIDDEN; i++) {
        x[token * HIDDEN + i] = value(rank, token, i);
      }
      for (int k = 0; k < SHARES.length; k++) {
        choices[token * SHARES.length + k] = choice(rank, token, k, experts);
        weights[token * SHARES.length + k] = SHARES[k];
      }
    }
    try (var buffer = ExpertBuffer.open(group, config)) {
      Tensor tokens = Tensor.of(x, TOKENS, HIDDEN);
      var received = buffer.dispatch(tokens, Routing.of(choices, weights, SHARES.length));
      int rows = (int) received.rows();
      float[] outputs = new float[rows * HIDDEN];
      for (int row = 0; row < rows; row++) {
        for (int k = 0; k < SHARES.length; k++) {
          int local = (int) received.topkIdx().getLong((long) row * SHARES.length + k);
          if (local >= 0) {
            float weight = received.topkWeights().getFloat((long) row * SHARES.length + k);
            for (int i = 0; i < HIDDEN; i++) {
              outputs[row * HIDDEN + i] +=
                  weight
                      * (rank * LOCAL + local + 1)
                      * received.x().getFloat((long) row * HIDDEN + i);
            }
          }
        }
      }
      var sums = buffer.combine(Tensor.of(outputs, rows, HIDDEN), received.handle());
      return sums.x().segment().toArray(java.lang.foreign.ValueLayout.JAVA_FLOAT);
    }
  }

  /** The sums of all ranks. */
  static float[][] expected(int ranks) {
    float[][] sums = new float[ranks][TOKENS * HIDDEN];
    for (int rank = 0; rank < ranks; rank++) {
      for (int token = 0; token < TOKENS; token++) {
        for (int k = 0; k < SHARES.length; k++) {
          int expert = choice(rank, token, k, LOCAL * ranks);
          for (int i = 0; i < HIDDEN; i++) {
            sums[rank][token * HIDDEN + i] += SHARES[k] * (expert + 1) * value(rank, token, i);
          }
        }
      }
    }
    return sums;
  }

  private static float value(int rank, int token, int i) {
    return 100 * rank + 10 * token + i;
  }

  private static int choice(int rank, int token, int k, int experts) {
    return (rank + token + 1 + k * (experts / 2 + 1)) % experts;
  }
}
