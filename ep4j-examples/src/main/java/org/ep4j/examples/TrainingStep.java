package org.ep4j.examples;

import static java.lang.foreign.ValueLayout.JAVA_FLOAT;
import static java.lang.foreign.ValueLayout.JAVA_LONG;

import java.nio.ByteBuffer;
import java.time.Duration;
import java.util.Arrays;
import org.ep4j.Combine;
import org.ep4j.CombineOptions;
import org.ep4j.CombineOrder;
import org.ep4j.DispatchHandle;
import org.ep4j.ExpertBuffer;
import org.ep4j.GroupedDispatch;
import org.ep4j.Tokens;
import org.ep4j.config.BufferConfig;
import org.ep4j.config.EngineName;
import org.ep4j.config.HighThroughputConfig;
import org.ep4j.config.Layout;
import org.ep4j.group.Group;
import org.ep4j.routing.ExpertPlacement;
import org.ep4j.routing.Routing;
import org.ep4j.tensor.DType;
import org.ep4j.tensor.Tensor;

/**
 * Forward and backward pass of a Mixture-of-Experts layer, the backward pass along the routes of
 * the forward pass: the gradient of a combine is a dispatch with the same handle, the gradient of a
 * dispatch a combine. Expert e multiplies a row element by element with row e of a matrix of
 * scales.
 *
 * <p>The loss has the same bits on any number of ranks, as long as the ranks share the same tokens
 * in the same order: combines sum in the order of experts, an expert finds its rows in the order of
 * ranks and tokens, and the loss adds tokens in that order.
 */
final class TrainingStep {
  private static final CombineOptions BY_EXPERTS =
      CombineOptions.builder().order(CombineOrder.EXPERT).build();
  private static final Duration TIMEOUT = Duration.ofSeconds(30);

  /** Row-major, [local experts, hidden]. */
  private final float[] scales;

  private final int hidden;
  private final float[] gradOfScales;

  /**
   * Results of a step on one rank.
   *
   * @param y [tokens, hidden], the layer's output
   * @param gradOfX [tokens, hidden]
   * @param gradOfWeights [tokens, topK]
   * @param gradOfScales [local experts, hidden], from the tokens of all ranks
   */
  @SuppressWarnings("ArrayRecordComponent") // results are not compared
  record Result(float[] y, float[] gradOfX, float[] gradOfWeights, float[] gradOfScales) {}

  /**
   * @param scales of this rank's experts, [local experts, hidden]
   */
  TrainingStep(float[] scales, int hidden) {
    this.scales = scales.clone();
    this.hidden = hidden;
    gradOfScales = new float[scales.length];
  }

  /** Opens a buffer for such steps on every rank of a group. */
  static ExpertBuffer open(Group group, int experts, int hidden, int topK, int maxTokens) {
    return ExpertBuffer.open(
        group,
        BufferConfig.builder()
            .engine(EngineName.HOST) // these experts are Java code
            .hidden(hidden)
            .topK(topK)
            .placement(ExpertPlacement.blocks(experts, group.size()))
            .highThroughput(
                HighThroughputConfig.builder()
                    .maxTokens(maxTokens)
                    .rowDType(DType.FP32)
                    .layouts(Layout.EXPERT_MAJOR)
                    .build())
            .build());
  }

  /**
   * One step; collective. The loss is half the sum of the squares of y, so its gradient is y.
   *
   * @param x this rank's tokens, [tokens, hidden]
   */
  Result run(ExpertBuffer buffer, float[] x, Routing routing) {
    GroupedDispatch received = buffer.dispatchGrouped(tokens(x), routing);
    // The next dispatch on this buffer reuses this memory: copy what the backward pass needs.
    float[] rows = received.x().segment().toArray(JAVA_FLOAT);
    float[] weights = received.rowWeights().segment().toArray(JAVA_FLOAT);
    long[] starts = received.expertOffsets().segment().toArray(JAVA_LONG);
    try (DispatchHandle handle = received.handle()) {
      Combine sums = buffer.combine(tokens(forward(rows, weights, starts)), handle, BY_EXPERTS);
      float[] y = sums.x().segment().toArray(JAVA_FLOAT);

      GroupedDispatch gradients = buffer.dispatchGrouped(Tokens.of(tokens(y)), handle);
      float[] grad = gradients.x().segment().toArray(JAVA_FLOAT);
      float[] gradOfWeights = new float[weights.length];
      backward(rows, weights, starts, grad, gradOfWeights);
      CombineOptions withWeights =
          BY_EXPERTS.toBuilder()
              .topkWeights(Tensor.of(gradOfWeights, gradOfWeights.length))
              .build();
      Combine back = buffer.combine(tokens(grad), handle, withWeights);
      return new Result(
          y,
          back.x().segment().toArray(JAVA_FLOAT),
          back.topkWeights().segment().toArray(JAVA_FLOAT),
          gradOfScales.clone());
    }
  }

  /** Moves the experts of this rank against the gradients of the last step. */
  void descend(float rate) {
    for (int i = 0; i < scales.length; i++) {
      scales[i] -= rate * gradOfScales[i];
    }
  }

  /**
   * Half the sum of the squares of the tokens of all ranks, in the order of ranks and tokens;
   * collective.
   *
   * @param y this rank's output, [tokens, hidden]
   */
  double loss(Group group, float[] y) {
    ByteBuffer mine = ByteBuffer.allocate(y.length / hidden * Double.BYTES);
    for (int token = 0; token < y.length / hidden; token++) {
      double squares = 0;
      for (int i = 0; i < hidden; i++) {
        squares += (double) y[token * hidden + i] * y[token * hidden + i];
      }
      mine.putDouble(squares / 2);
    }
    double sum = 0;
    for (byte[] ofRank : group.allGather(mine.array(), TIMEOUT)) {
      for (ByteBuffer losses = ByteBuffer.wrap(ofRank); losses.hasRemaining(); ) {
        sum += losses.getDouble();
      }
    }
    return sum;
  }

  private Tensor tokens(float[] rows) {
    return Tensor.of(rows, rows.length / hidden, hidden);
  }

  /** Each local expert on its group of rows, weighted. */
  private float[] forward(float[] rows, float[] weights, long[] starts) {
    float[] out = new float[rows.length];
    for (int expert = 0; expert + 1 < starts.length; expert++) {
      for (int row = (int) starts[expert]; row < starts[expert + 1]; row++) {
        for (int i = 0; i < hidden; i++) {
          out[row * hidden + i] =
              weights[row] * scales[expert * hidden + i] * rows[row * hidden + i];
        }
      }
    }
    return out;
  }

  /**
   * The gradients of all inputs of {@link #forward}.
   *
   * @param grad the gradient of its result; becomes that of the rows
   */
  private void backward(
      float[] rows, float[] weights, long[] starts, float[] grad, float[] gradOfWeights) {
    Arrays.fill(gradOfScales, 0);
    for (int expert = 0; expert + 1 < starts.length; expert++) {
      for (int row = (int) starts[expert]; row < starts[expert + 1]; row++) {
        for (int i = 0; i < hidden; i++) {
          float scale = scales[expert * hidden + i];
          float value = rows[row * hidden + i];
          float of = grad[row * hidden + i];
          gradOfWeights[row] += of * scale * value;
          gradOfScales[expert * hidden + i] += of * weights[row] * value;
          grad[row * hidden + i] = of * weights[row] * scale;
        }
      }
    }
  }
}
