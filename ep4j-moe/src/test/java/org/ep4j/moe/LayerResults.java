package org.ep4j.moe;

import java.nio.file.Path;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.function.Function;
import org.ep4j.io.SafetensorsFile;
import org.ep4j.io.SafetensorsWriter;
import org.ep4j.tensor.Tensor;

/**
 * Results of all passes on one rank.
 *
 * @param gradOfExperts w1, w3 and w2 of each local expert
 * @param gradOfShared the same of the shared expert; empty without one
 */
record LayerResults(
    float[] forward,
    float[] decoded,
    float[] gradOfX,
    float[] gradOfRouter,
    List<List<float[]>> gradOfExperts,
    List<float[]> gradOfShared) {
  /** Matrices of an expert. */
  static final int MATRICES = 3;

  /** Copies gradients to the host by {@code values}. */
  static LayerResults of(
      float[] forward, float[] decoded, MoeGradients of, Function<Tensor, float[]> values) {
    return new LayerResults(
        forward,
        decoded,
        values.apply(of.x()),
        values.apply(of.router()),
        of.experts().stream().map(expert -> matrices(expert, values)).toList(),
        of.shared().map(expert -> matrices(expert, values)).orElse(List.of()));
  }

  static List<float[]> matrices(ExpertWeights weights, Function<Tensor, float[]> values) {
    return List.of(
        values.apply(weights.w1()), values.apply(weights.w3()), values.apply(weights.w2()));
  }

  /** For another process. */
  void write(Path path) {
    Map<String, Tensor> tensors = new LinkedHashMap<>();
    put(tensors, "forward", forward);
    put(tensors, "decoded", decoded);
    put(tensors, "x", gradOfX);
    put(tensors, "router", gradOfRouter);
    for (int e = 0; e < gradOfExperts.size(); e++) {
      for (int m = 0; m < MATRICES; m++) {
        put(tensors, "expert " + e + "." + m, gradOfExperts.get(e).get(m));
      }
    }
    for (int m = 0; m < gradOfShared.size(); m++) {
      put(tensors, "shared " + m, gradOfShared.get(m));
    }
    SafetensorsWriter.write(path, Map.of(), tensors);
  }

  private static void put(Map<String, Tensor> tensors, String name, float[] values) {
    tensors.put(name, Tensor.of(values, values.length));
  }

  /** What another process has written. */
  static LayerResults read(Path path) {
    try (SafetensorsFile file = SafetensorsFile.open(path)) {
      List<List<float[]>> experts = new ArrayList<>();
      while (file.names().contains("expert " + experts.size() + ".0")) {
        experts.add(matrices(file, "expert " + experts.size() + "."));
      }
      return new LayerResults(
          values(file, "forward"),
          values(file, "decoded"),
          values(file, "x"),
          values(file, "router"),
          experts,
          file.names().contains("shared 0") ? matrices(file, "shared ") : List.of());
    }
  }

  private static List<float[]> matrices(SafetensorsFile file, String prefix) {
    return List.of(values(file, prefix + 0), values(file, prefix + 1), values(file, prefix + 2));
  }

  private static float[] values(SafetensorsFile file, String name) {
    return file.tensor(name).toFloatArray();
  }
}
