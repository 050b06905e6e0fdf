package org.ep4j.jlama;

import com.fasterxml.jackson.databind.JsonNode;
import com.github.tjake.jlama.model.llama.LlamaTokenizer;
import com.github.tjake.jlama.model.mixtral.MixtralConfig;
import com.github.tjake.jlama.safetensors.SafeTensorSupport;
import com.github.tjake.jlama.safetensors.TensorInfo;
import com.github.tjake.jlama.safetensors.WeightLoader;
import com.github.tjake.jlama.safetensors.tokenizer.Tokenizer;
import com.github.tjake.jlama.util.JsonSupport;
import java.io.IOException;
import java.nio.file.Path;
import java.util.Arrays;
import java.util.Collection;
import java.util.Map;
import java.util.TreeMap;
import java.util.TreeSet;
import java.util.stream.Collectors;
import org.ep4j.error.ErrorCode;
import org.ep4j.error.InvalidArgumentException;

/** A Mixtral in Hugging Face's format. Weights are mapped, and read when they are used. */
record Checkpoint(MixtralConfig config, WeightLoader weights, Tokenizer tokenizer) {
  /** Factors of quantized weights, in checkpoints of Jlama. */
  private static final String FACTORS = ".qb";

  /** Names in a message. */
  private static final int NAMED = 3;

  static Checkpoint open(Path directory) {
    Path file = directory.resolve("config.json");
    MixtralConfig config;
    try {
      JsonNode json = JsonSupport.om.readTree(file.toFile());
      String type = json.path("model_type").asText();
      if (!type.equals("mixtral")) {
        throw noMixtral(file, "model_type is " + (type.isEmpty() ? "missing" : type));
      }
      config = JsonSupport.om.treeToValue(json, MixtralConfig.class);
    } catch (IOException e) {
      InvalidArgumentException refused = noMixtral(file, String.valueOf(e.getMessage()));
      refused.initCause(e);
      throw refused;
    }
    if (config.numberOfExperts < 1) {
      throw noMixtral(file, "num_local_experts is missing");
    }
    return new Checkpoint(
        config, SafeTensorSupport.loadWeights(directory.toFile()), new LlamaTokenizer(directory));
  }

  private static InvalidArgumentException noMixtral(Path file, String why) {
    return new InvalidArgumentException(
        ErrorCode.CHECKPOINT_MODEL,
        "config.json",
        file + " (" + why + ")",
        "the configuration of a Mixtral",
        "pass the directory of a Mixtral checkpoint");
  }

  /**
   * Checks the names and shapes of all tensors, of other ranks' experts too: all ranks refuse the
   * same checkpoints.
   */
  void check() {
    Map<String, int[]> expected = tensors();
    Map<String, TensorInfo> found = new TreeMap<>(weights.tensorInfoMap());
    var missing = new TreeSet<>(expected.keySet());
    missing.removeAll(found.keySet());
    // Without it, the embeddings serve as output weights.
    missing.remove("lm_head.weight");
    if (!missing.isEmpty()) {
      throw tensorsDiffer("missing", missing);
    }
    var unknown = new TreeSet<>(found.keySet());
    unknown.removeAll(expected.keySet());
    unknown.removeIf(
        name ->
            name.endsWith(FACTORS)
                && expected.containsKey(name.substring(0, name.length() - FACTORS.length())));
    if (!unknown.isEmpty()) {
      throw tensorsDiffer("unknown", unknown);
    }
    expected.forEach(
        (name, shape) -> {
          TensorInfo info = found.get(name);
          if (info != null
              && !Arrays.equals(withoutSingleRow(info.shape), withoutSingleRow(shape))) {
            throw new InvalidArgumentException(
                ErrorCode.CHECKPOINT_SHAPE,
                name,
                "a tensor of shape " + Arrays.toString(info.shape),
                Arrays.toString(shape) + ", as config.json says",
                "use the config.json of these weights");
          }
        });
  }

  /** Jlama writes a vector as a matrix of one row when it quantizes a checkpoint. */
  private static int[] withoutSingleRow(int[] shape) {
    return shape.length == 2 && shape[0] == 1 ? new int[] {shape[1]} : shape;
  }

  private InvalidArgumentException tensorsDiffer(String how, Collection<String> names) {
    String some = names.stream().limit(NAMED).collect(Collectors.joining(", "));
    return new InvalidArgumentException(
        ErrorCode.CHECKPOINT_TENSORS,
        how + " tensors",
        some + (names.size() > NAMED ? " and " + (names.size() - NAMED) + " more" : ""),
        "none for " + config.numberOfLayers + " layers and " + config.numberOfExperts + " experts",
        "use weights and config.json of one Mixtral checkpoint");
  }

  /** Names and shapes of the tensors that the configuration describes. */
  private Map<String, int[]> tensors() {
    int hidden = config.embeddingLength;
    int attention = config.numberOfHeads * config.headSize;
    int inner = config.hiddenLength;
    Map<String, int[]> shapes = new TreeMap<>();
    shapes.put("model.embed_tokens.weight", new int[] {config.vocabularySize, hidden});
    shapes.put("lm_head.weight", new int[] {config.vocabularySize, hidden});
    shapes.put("model.norm.weight", new int[] {hidden});
    for (int layer = 0; layer < config.numberOfLayers; layer++) {
      String prefix = "model.layers." + layer + ".";
      shapes.put(prefix + "input_layernorm.weight", new int[] {hidden});
      shapes.put(prefix + "post_attention_layernorm.weight", new int[] {hidden});
      shapes.put(prefix + "self_attn.q_proj.weight", new int[] {attention, hidden});
      shapes.put(prefix + "self_attn.k_proj.weight", new int[] {config.kvLength, hidden});
      shapes.put(prefix + "self_attn.v_proj.weight", new int[] {config.kvLength, hidden});
      shapes.put(prefix + "self_attn.o_proj.weight", new int[] {hidden, attention});
      prefix += "block_sparse_moe.";
      shapes.put(prefix + "gate.weight", new int[] {config.numberOfExperts, hidden});
      for (int expert = 0; expert < config.numberOfExperts; expert++) {
        String name = prefix + "experts." + expert + ".";
        shapes.put(name + "w1.weight", new int[] {inner, hidden});
        shapes.put(name + "w2.weight", new int[] {hidden, inner});
        shapes.put(name + "w3.weight", new int[] {inner, hidden});
      }
    }
    return shapes;
  }
}
