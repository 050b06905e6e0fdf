package org.ep4j.moe;

import com.fasterxml.jackson.jr.ob.JSON;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Collection;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeSet;
import java.util.stream.IntStream;
import org.ep4j.error.ErrorCode;
import org.ep4j.error.InvalidArgumentException;

/**
 * What a {@code config.json} says about Mixture-of-Experts layers, and the names of their tensors.
 *
 * @param shape the same for all layers
 * @param layers numbers of the layers that have experts, ascending
 * @param hasBias whether routers have a bias
 * @param block name of a layer's part that holds router and experts
 * @param w1 its name in files, as those of the other matrices
 */
record MoeModel(
    MoeShape shape,
    List<Integer> layers,
    boolean hasBias,
    String block,
    String w1,
    String w3,
    String w2) {
  static final String BIAS = "gate.e_score_correction_bias";

  private static final List<String> TYPES = List.of("mixtral", "qwen3_moe", "deepseek_v3");

  /** Reads the file of one of the known models. */
  static MoeModel read(Path file) {
    var fields = new Fields(file, json(file));
    String type = String.valueOf(fields.json().get("model_type"));
    if (!TYPES.contains(type)) {
      throw refused(file, "model_type is " + type);
    }
    try {
      return switch (type) {
        case "mixtral" -> mixtral(fields);
        case "qwen3_moe" -> qwen3(fields);
        default -> deepSeekV3(fields);
      };
    } catch (InvalidArgumentException e) {
      if (e.errorCode() == ErrorCode.CHECKPOINT_MODEL) {
        throw e;
      }
      throw refused(file, String.valueOf(e.getMessage()));
    }
  }

  private static MoeModel mixtral(Fields fields) {
    RouterConfig router =
        RouterConfig.softmax(
            fields.number("num_local_experts"), fields.number("num_experts_per_tok"));
    return new MoeModel(
        new MoeShape(fields.number("hidden_size"), fields.number("intermediate_size"), 0, router),
        layers(fields, 0, 1),
        false,
        "block_sparse_moe",
        "w1",
        "w3",
        "w2");
  }

  private static MoeModel qwen3(Fields fields) {
    var router =
        new RouterConfig(
            fields.number("num_experts"),
            fields.number("num_experts_per_tok"),
            RouterConfig.Scores.SOFTMAX,
            fields.flag("norm_topk_prob", false),
            1,
            1,
            1);
    int step = fields.number("decoder_sparse_step", 1);
    List<Integer> dense =
        fields.json().get("mlp_only_layers") instanceof Collection<?> only
            ? only.stream().map(layer -> layer instanceof Number n ? n.intValue() : -1).toList()
            : List.of();
    List<Integer> sparse =
        layers(fields, step - 1, step).stream().filter(layer -> !dense.contains(layer)).toList();
    int hidden = fields.number("hidden_size");
    return projections(
        new MoeShape(hidden, fields.number("moe_intermediate_size"), 0, router), sparse, false);
  }

  private static MoeModel deepSeekV3(Fields fields) {
    int intermediate = fields.number("moe_intermediate_size");
    var router =
        new RouterConfig(
            fields.number("n_routed_experts"),
            fields.number("num_experts_per_tok"),
            RouterConfig.Scores.SIGMOID,
            fields.flag("norm_topk_prob", true),
            fields.fraction("routed_scaling_factor", 1),
            fields.number("n_group", 1),
            fields.number("topk_group", 1));
    int shared = Math.multiplyExact(intermediate, fields.number("n_shared_experts", 0));
    int every = fields.number("moe_layer_freq", 1);
    int dense = fields.number("first_k_dense_replace", 0);
    return projections(
        new MoeShape(fields.number("hidden_size"), intermediate, shared, router),
        layers(fields, (dense + every - 1) / every * every, every),
        true);
  }

  private static MoeModel projections(MoeShape shape, List<Integer> layers, boolean hasBias) {
    return new MoeModel(shape, layers, hasBias, "mlp", "gate_proj", "up_proj", "down_proj");
  }

  private static List<Integer> layers(Fields fields, int first, int step) {
    if (step < 1) {
      throw refused(fields.file(), "decoder_sparse_step or moe_layer_freq is " + step);
    }
    int end = fields.number("num_hidden_layers");
    return IntStream.iterate(first, layer -> layer < end, layer -> layer + step).boxed().toList();
  }

  /** Prefix of the tensors of a layer. */
  String prefix(int layer) {
    return "model.layers." + layer + "." + block + ".";
  }

  /** Names of the tensors with a prefix. */
  Set<String> names(String prefix) {
    Set<String> names = new TreeSet<>();
    names.add(prefix + "gate.weight");
    if (hasBias) {
      names.add(prefix + BIAS);
    }
    for (int expert = 0; expert < shape.router().experts(); expert++) {
      addMatrices(names, prefix + "experts." + expert);
    }
    if (shape.sharedIntermediate() > 0) {
      addMatrices(names, prefix + "shared_experts");
    }
    return names;
  }

  private void addMatrices(Set<String> names, String expert) {
    for (String matrix : List.of(w1, w3, w2)) {
      names.add(expert + "." + matrix + ".weight");
    }
  }

  static Map<String, Object> json(Path file) {
    try {
      return JSON.std.mapFrom(Files.readString(file));
    } catch (IOException e) {
      InvalidArgumentException refused = refused(file, String.valueOf(e.getMessage()));
      refused.initCause(e);
      throw refused;
    }
  }

  static InvalidArgumentException refused(Path file, String why) {
    return new InvalidArgumentException(
        ErrorCode.CHECKPOINT_MODEL,
        String.valueOf(file.getFileName()),
        file + " (" + why + ")",
        "a file of a checkpoint of " + String.join(", ", TYPES),
        "pass the directory of such a checkpoint");
  }

  /** Typed fields of the file. */
  private record Fields(Path file, Map<String, Object> json) {
    int number(String name) {
      Object value = json.get(name);
      if (value instanceof Number number && number.longValue() == number.intValue()) {
        return number.intValue();
      }
      throw refused(file, name + " is " + (value == null ? "missing" : value));
    }

    int number(String name, int otherwise) {
      return json.get(name) == null ? otherwise : number(name);
    }

    float fraction(String name, float otherwise) {
      return json.get(name) instanceof Number number ? number.floatValue() : otherwise;
    }

    boolean flag(String name, boolean otherwise) {
      return json.get(name) instanceof Boolean flag ? flag : otherwise;
    }
  }
}
