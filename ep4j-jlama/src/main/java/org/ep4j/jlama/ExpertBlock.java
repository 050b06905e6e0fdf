package org.ep4j.jlama;

import static java.lang.foreign.ValueLayout.JAVA_FLOAT;

import com.github.tjake.jlama.math.VectorMath;
import com.github.tjake.jlama.model.MLPBlock;
import com.github.tjake.jlama.model.functions.FeedForward;
import com.github.tjake.jlama.model.mixtral.MixtralConfig;
import com.github.tjake.jlama.tensor.AbstractTensor;
import com.github.tjake.jlama.tensor.operations.TensorOperationsProvider;
import java.lang.foreign.MemorySegment;
import java.util.List;
import java.util.Optional;
import java.util.function.Consumer;
import org.ep4j.routing.Routing;

/** The experts of a layer: this rank's own ones, and the way to all others. */
@SuppressWarnings("rawtypes") // signatures of Jlama
final class ExpertBlock implements FeedForward {
  private final ExpertParallelMixtral model;
  private final int hidden;
  private final int expertCount;
  private final int topK;
  private final AbstractTensor router;
  private final List<MLPBlock> experts;
  private final ExpertExchange exchange;

  ExpertBlock(
      ExpertParallelMixtral model,
      AbstractTensor router,
      List<MLPBlock> experts,
      ExpertExchange exchange) {
    this.model = model;
    MixtralConfig config = (MixtralConfig) model.getConfig();
    this.hidden = config.embeddingLength;
    this.expertCount = config.numberOfExperts;
    this.topK = config.numberOfExpertsPerToken;
    this.router = router;
    this.experts = experts;
    this.exchange = exchange;
  }

  @Override
  public AbstractTensor forward(
      AbstractTensor input, Optional<Consumer<List<AbstractTensor>>> tensorReducer) {
    int tokens = input.shape().first();
    float[] sums = exchange.exchange(values(input), route(input, tokens), this::apply);
    return tensorOf(sums, tokens);
  }

  /** This layer in a step in which this rank has no tokens. */
  void takePart() {
    exchange.exchange(new float[0], Routing.of(new int[0], new float[0], topK), this::apply);
  }

  private float[] apply(int local, float[] rows) {
    try (AbstractTensor x = tensorOf(rows, rows.length / hidden);
        AbstractTensor quantized = model.quantized(x);
        AbstractTensor y = experts.get(local).forward(quantized, Optional.empty())) {
      return values(y);
    }
  }

  /** The topK experts with the largest logits; softmax over these logits gives the weights. */
  private Routing route(AbstractTensor input, int tokens) {
    int[] chosen = new int[tokens * topK];
    float[] weights = new float[tokens * topK];
    try (AbstractTensor logits = model.makeTensor(tokens, expertCount)) {
      VectorMath.pchunk(
          0,
          expertCount,
          (start, length) ->
              TensorOperationsProvider.get()
                  .dotProductChunk(logits, input, router, 0, hidden, start, length));
      float[] scores = new float[expertCount];
      for (int token = 0; token < tokens; token++) {
        for (int expert = 0; expert < expertCount; expert++) {
          scores[expert] =
              exchange.isLost(expert) ? Float.NEGATIVE_INFINITY : logits.get(token, expert);
        }
        choose(scores, chosen, weights, token * topK);
      }
    }
    return Routing.of(chosen, weights, topK);
  }

  /** Writes a token's choices from {@code at} on; −1 where too few experts are left. */
  private void choose(float[] scores, int[] chosen, float[] weights, int at) {
    float largest = 0;
    float sum = 0;
    for (int k = at; k < at + topK; k++) {
      int best = 0;
      for (int expert = 1; expert < scores.length; expert++) {
        if (scores[expert] > scores[best]) {
          best = expert;
        }
      }
      if (scores[best] == Float.NEGATIVE_INFINITY) {
        chosen[k] = -1;
        continue;
      }
      largest = k == at ? scores[best] : largest;
      chosen[k] = best;
      weights[k] = (float) Math.exp(scores[best] - largest);
      sum += weights[k];
      scores[best] = Float.NEGATIVE_INFINITY;
    }
    for (int k = at; k < at + topK; k++) {
      weights[k] = sum == 0 ? 0 : weights[k] / sum;
    }
  }

  private AbstractTensor tensorOf(float[] values, int rows) {
    AbstractTensor tensor = model.makeTensor(rows, hidden);
    MemorySegment.copy(values, 0, tensor.getMemorySegment(), JAVA_FLOAT, 0, values.length);
    return tensor;
  }

  private float[] values(AbstractTensor tensor) {
    if (tensor.dType() == com.github.tjake.jlama.safetensors.DType.F32) {
      return tensor.getMemorySegment().toArray(JAVA_FLOAT);
    }
    float[] values = new float[tensor.shape().first() * hidden];
    for (int i = 0; i < values.length; i++) {
      values[i] = tensor.get(i / hidden, i % hidden);
    }
    return values;
  }
}
