package org.ep4j.moe;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.stream.Collectors;
import org.ep4j.io.SafetensorsWriter;
import org.ep4j.tensor.DType;
import org.ep4j.tensor.Tensor;

/** Writes layers as checkpoints in Hugging Face's format. */
final class CheckpointFiles {
  static final String MIXTRAL =
      """
      {"model_type": "mixtral", "hidden_size": 24, "intermediate_size": 20, "num_local_experts": 8,
       "num_experts_per_tok": 2, "num_hidden_layers": 2}
      """;

  static final String QWEN3 =
      """
      {"model_type": "qwen3_moe", "hidden_size": 24, "moe_intermediate_size": 16, "num_experts": 12,
       "num_experts_per_tok": 3, "num_hidden_layers": 6, "norm_topk_prob": true,
       "decoder_sparse_step": 2, "mlp_only_layers": [3]}
      """;

  static final String DEEPSEEK =
      """
      {"model_type": "deepseek_v3", "hidden_size": 160, "moe_intermediate_size": 136,
       "n_routed_experts": 8, "num_experts_per_tok": 3, "n_shared_experts": 2, "n_group": 4,
       "topk_group": 2, "routed_scaling_factor": 2.5, "norm_topk_prob": true,
       "first_k_dense_replace": 1, "moe_layer_freq": 1, "num_hidden_layers": 3}
      """;

  private CheckpointFiles() {}

  /** Tensors of a layer, by name. */
  static Map<String, Tensor> tensors(
      PlainMoe layer, String prefix, List<String> names, DType type) {
    MoeShape shape = layer.shape;
    Map<String, Tensor> tensors = new TreeMap<>();
    tensors.put(
        prefix + "gate.weight", Tensor.of(layer.router, shape.router().experts(), shape.hidden()));
    if (shape.router().scores() == RouterConfig.Scores.SIGMOID) {
      tensors.put(
          prefix + "gate.e_score_correction_bias", Tensor.of(layer.bias, layer.bias.length));
    }
    for (int e = 0; e < layer.experts.size(); e++) {
      put(
          tensors,
          prefix + "experts." + e + ".",
          names,
          layer.experts.get(e),
          shape.hidden(),
          type);
    }
    if (shape.sharedIntermediate() > 0) {
      put(tensors, prefix + "shared_experts.", names, layer.shared, shape.hidden(), type);
    }
    return tensors;
  }

  private static void put(
      Map<String, Tensor> tensors,
      String prefix,
      List<String> names,
      float[][] matrices,
      int hidden,
      DType type) {
    for (int m = 0; m < 3; m++) {
      int inner = matrices[m].length / hidden;
      int rows = m < 2 ? inner : hidden;
      int columns = m < 2 ? hidden : inner;
      String name = prefix + names.get(m) + ".weight";
      if (type == DType.FP8_E4M3) {
        quantize(matrices[m], rows, columns, name, tensors);
      } else {
        Tensor rounded = Tensor.fromFloats(matrices[m], type, rows, columns);
        System.arraycopy(rounded.toFloatArray(), 0, matrices[m], 0, matrices[m].length);
        tensors.put(name, rounded);
      }
    }
  }

  /** Factors of blocks that are powers of two, so that the layer's values are those of the file. */
  private static void quantize(
      float[] values, int rows, int columns, String name, Map<String, Tensor> tensors) {
    int across = (columns + 127) / 128;
    var factors = new float[(rows + 127) / 128 * across];
    var scaled = new float[values.length];
    for (int i = 0; i < values.length; i++) {
      int block = i / columns / 128 * across + i % columns / 128;
      factors[block] = Math.scalb(1f, -3 - block);
      scaled[i] = values[i] / factors[block];
    }
    Tensor quantized = Tensor.fromFloats(scaled, DType.FP8_E4M3, rows, columns);
    float[] back = quantized.toFloatArray();
    for (int i = 0; i < values.length; i++) {
      values[i] = back[i] * factors[i / columns / 128 * across + i % columns / 128];
    }
    tensors.put(name, quantized);
    tensors.put(name + "_scale_inv", Tensor.of(factors, (rows + 127) / 128, across));
  }

  static void write(Path directory, String config, Map<String, Tensor> tensors) throws IOException {
    Files.writeString(directory.resolve("config.json"), config);
    SafetensorsWriter.write(directory.resolve("model.safetensors"), Map.of(), tensors);
  }

  /** Each tensor in one of two files, and an index. */
  static void writeTwo(Path directory, String config, Map<String, Tensor> tensors)
      throws IOException {
    Files.writeString(directory.resolve("config.json"), config);
    List<Map<String, Tensor>> parts = List.of(new TreeMap<>(), new TreeMap<>());
    Map<String, String> index = new TreeMap<>();
    for (String name : tensors.keySet()) {
      int part = index.size() % 2;
      parts.get(part).put(name, tensors.get(name));
      index.put(name, "model-0000" + part + ".safetensors");
    }
    for (int part = 0; part < 2; part++) {
      Path file = directory.resolve("model-0000" + part + ".safetensors");
      SafetensorsWriter.write(file, Map.of(), parts.get(part));
    }
    String names =
        index.entrySet().stream()
            .map(entry -> '"' + entry.getKey() + "\": \"" + entry.getValue() + '"')
            .collect(Collectors.joining(", "));
    Files.writeString(
        directory.resolve("model.safetensors.index.json"), "{\"weight_map\": {" + names + "}}");
  }
}
