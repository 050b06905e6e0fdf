package org.ep4j.jlama;

import com.github.tjake.jlama.model.CausalSelfAttention;
import com.github.tjake.jlama.model.MLPBlock;
import com.github.tjake.jlama.model.RMSNorm;
import com.github.tjake.jlama.model.TransformerBlock;
import com.github.tjake.jlama.model.mixtral.MixtralModel;
import com.github.tjake.jlama.safetensors.DType;
import com.github.tjake.jlama.safetensors.prompt.PromptContext;
import com.github.tjake.jlama.tensor.AbstractTensor;
import com.github.tjake.jlama.tensor.KvBufferCache;
import com.github.tjake.jlama.tensor.KvBufferCache.KvBuffer;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Optional;
import java.util.UUID;
import java.util.function.Consumer;
import org.ep4j.error.InvalidArgumentException;
import org.ep4j.error.PeerTimeoutException;
import org.ep4j.group.Group;

/**
 * Mixtral of Jlama with its experts spread over the ranks of a group. Each rank has the attention,
 * the router and the embeddings of all layers, and its own experts alone. Ranks generate texts of
 * their own; the experts of all ranks compute for each of them.
 *
 * <p>The methods that generate are those of Jlama. All other ranks take part: a rank whose texts
 * are complete calls {@link #serve()}. Prompts pass through high-throughput operations in FP32,
 * single tokens through low-latency operations in BF16. The tokens of a text depend neither on the
 * number of ranks nor on the texts of other ranks, as long as Jlama's products of a row do not
 * depend on the other rows.
 *
 * <p>If a rank is lost between two steps, the others continue without its experts: the router
 * chooses among those that remain. A rank that is lost while a token passes through the layers is
 * masked, and the sums of that token lack its experts. A rank that is lost in the middle of a
 * prompt ends the call on all ranks in {@link PeerTimeoutException}; the next call of the live
 * ranks continues without it. An interrupt of a rank's thread ends its call, and can end those of
 * the others; the next calls continue with all ranks.
 *
 * <p>Thread rule: one thread per rank.
 */
@SuppressWarnings("rawtypes") // signatures of Jlama
public final class ExpertParallelMixtral extends MixtralModel {
  private final ExpertExchange exchange;
  private final List<ExpertBlock> blocks;

  /** Jlama's constructor calls {@link #loadTransformerBlockWeights()}: fields come first. */
  private ExpertParallelMixtral(Checkpoint checkpoint, ExpertExchange exchange) {
    this.exchange = exchange;
    this.blocks = new ArrayList<>();
    super(
        checkpoint.config(),
        checkpoint.weights(),
        checkpoint.tokenizer(),
        DType.F32,
        DType.I8,
        Optional.empty());
  }

  /**
   * Loads a checkpoint in Hugging Face's format: {@code config.json}, {@code tokenizer.json} and
   * safetensors; collective. Rank r loads the r-th block of the experts; if the division leaves a
   * remainder, the first ranks own one expert more.
   *
   * @param group stays open until this model is closed; its owner closes it
   * @param timeout maximum wait for another rank in a step: longer than the ranks differ in
   *     loading, and than any rank takes for the layers of a prompt. Between steps, ranks wait for
   *     each other without a limit
   * @throws InvalidArgumentException if the checkpoint is no Mixtral, or a tensor is missing,
   *     unknown or of another shape
   */
  public static ExpertParallelMixtral load(Path directory, Group group, Duration timeout) {
    return load(Checkpoint.open(directory), group, timeout);
  }

  static ExpertParallelMixtral load(Checkpoint checkpoint, Group group, Duration timeout) {
    checkpoint.check();
    return load(checkpoint, ExpertExchange.open(group, checkpoint.config(), timeout));
  }

  /** The model closes the exchange, also if this method fails. */
  static ExpertParallelMixtral load(Checkpoint checkpoint, ExpertExchange exchange) {
    try {
      return new ExpertParallelMixtral(checkpoint, exchange);
    } catch (RuntimeException | Error e) {
      exchange.close();
      throw e;
    }
  }

  /**
   * Computes with this rank's experts for the texts of the other ranks, until all live ranks have
   * called it.
   *
   * @throws PeerTimeoutException if a rank is lost in the middle of a prompt
   */
  public void serve() {
    takePartUntil(Phase.SERVE);
  }

  /** Generates a text of a session of its own, and frees the session's memory. */
  Response generateOnce(PromptContext prompt, float temperature, int tokens) {
    KvBufferCache sessions = kvBufferCache;
    try (var own = new KvBufferCache(this)) {
      kvBufferCache = own;
      return generate(UUID.randomUUID(), prompt, temperature, tokens, (token, millis) -> {});
    } finally {
      kvBufferCache = sessions;
    }
  }

  @Override
  public AbstractTensor forward(
      AbstractTensor embedding,
      int startPos,
      KvBuffer kvbuf,
      Optional<Consumer<List<AbstractTensor>>> tensorReducer) {
    takePartUntil(embedding.shape().first() > 1 ? Phase.PREFILL : Phase.DECODE);
    return super.forward(embedding, startPos, kvbuf, tensorReducer);
  }

  /** Returns when the ranks agree on a step of this phase. */
  private void takePartUntil(Phase phase) {
    while (exchange.agree(phase) != phase) {
      blocks.forEach(ExpertBlock::takePart);
    }
  }

  @Override
  protected TransformerBlock[] loadTransformerBlockWeights() {
    var transformers = new TransformerBlock[c.numberOfLayers];
    for (int layer = 0; layer < transformers.length; layer++) {
      String prefix = "model.layers." + layer + ".";
      ExpertBlock block = expertBlock(prefix + "block_sparse_moe.");
      blocks.add(block);
      var attention =
          new CausalSelfAttention(
              this,
              layer,
              weights.load(prefix + "self_attn.q_proj.weight"),
              weights.load(prefix + "self_attn.k_proj.weight"),
              weights.load(prefix + "self_attn.v_proj.weight"),
              weights.load(prefix + "self_attn.o_proj.weight"));
      transformers[layer] =
          new TransformerBlock(
              this,
              layer,
              norm(prefix + "input_layernorm.weight"),
              attention,
              norm(prefix + "post_attention_layernorm.weight"),
              block);
    }
    return transformers;
  }

  private RMSNorm norm(String name) {
    return new RMSNorm(this, weights.load(name));
  }

  private ExpertBlock expertBlock(String prefix) {
    List<MLPBlock> experts = new ArrayList<>();
    for (int expert : exchange.ownExperts()) {
      String name = prefix + "experts." + expert + ".";
      experts.add(
          new MLPBlock(
              this,
              c.activationFunction,
              weights.load(name + "w1.weight"),
              weights.load(name + "w2.weight"),
              weights.load(name + "w3.weight")));
    }
    return new ExpertBlock(this, weights.load(prefix + "gate.weight"), experts, exchange);
  }

  /** For the blocks: the rows in the type of Jlama's products. */
  AbstractTensor quantized(AbstractTensor rows) {
    return maybeQuantize(rows);
  }

  /** Closes the model and what it opened in the group. */
  @Override
  public void close() {
    super.close();
    exchange.close();
  }
}
