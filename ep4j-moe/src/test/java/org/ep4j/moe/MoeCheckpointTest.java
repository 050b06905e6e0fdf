package org.ep4j.moe;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.Random;
import org.assertj.core.api.ThrowableAssert.ThrowingCallable;
import org.assertj.core.data.Offset;
import org.ep4j.ExpertBuffer;
import org.ep4j.error.ErrorCode;
import org.ep4j.error.InvalidArgumentException;
import org.ep4j.group.ThreadRanks;
import org.ep4j.routing.ExpertPlacement;
import org.ep4j.routing.ReplicatedPlacement;
import org.ep4j.tensor.DType;
import org.ep4j.tensor.Tensor;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

class MoeCheckpointTest {
  private static final List<String> MIXTRAL_NAMES = List.of("w1", "w3", "w2");
  private static final List<String> NAMES = List.of("gate_proj", "up_proj", "down_proj");
  private static final int TOKENS = 9;

  @TempDir Path directory;

  @Test
  void mixtral() throws IOException {
    var shape = new MoeShape(24, 20, 0, RouterConfig.softmax(8, 2));
    var layer = new PlainMoe(shape, 1);
    String prefix = "model.layers.1.block_sparse_moe.";
    Map<String, Tensor> tensors = CheckpointFiles.tensors(layer, prefix, MIXTRAL_NAMES, DType.BF16);
    tensors.put("model.norm.weight", Tensor.of(new float[24], 24));
    CheckpointFiles.write(directory, CheckpointFiles.MIXTRAL, tensors);
    assertLayer(layer, 1, List.of(0, 1));
  }

  @Test
  void qwen3() throws IOException {
    var shape = new MoeShape(24, 16, 0, RouterConfig.softmax(12, 3));
    var layer = new PlainMoe(shape, 2);
    Map<String, Tensor> tensors =
        CheckpointFiles.tensors(layer, "model.layers.5.mlp.", NAMES, DType.FP32);
    CheckpointFiles.writeTwo(directory, CheckpointFiles.QWEN3, tensors);
    assertLayer(layer, 5, List.of(1, 5));
  }

  @Test
  void deepSeekV3InFp8() throws IOException {
    var shape = new MoeShape(160, 136, 272, RouterConfig.sigmoid(8, 3, 4, 2, 2.5f));
    var layer = new PlainMoe(shape, 3);
    Map<String, Tensor> tensors =
        CheckpointFiles.tensors(layer, "model.layers.2.mlp.", NAMES, DType.FP8_E4M3);
    CheckpointFiles.write(directory, CheckpointFiles.DEEPSEEK, tensors);
    assertLayer(layer, 2, List.of(1, 2));
  }

  @Test
  void matricesOfFp8KeepTheirFactors() throws IOException {
    var layer =
        new PlainMoe(new MoeShape(160, 136, 272, RouterConfig.sigmoid(8, 3, 4, 2, 2.5f)), 7);
    String prefix = "model.layers.1.mlp.";
    Map<String, Tensor> tensors = CheckpointFiles.tensors(layer, prefix, NAMES, DType.FP8_E4M3);
    CheckpointFiles.write(directory, CheckpointFiles.DEEPSEEK, tensors);
    try (MoeCheckpoint checkpoint = MoeCheckpoint.open(directory)) {
      MoeWeights weights = checkpoint.weights(1, ExpertPlacement.blocks(8, 1), 0);
      ExpertWeights shared = weights.shared().orElseThrow();
      assertThat(shared.w2().dtype()).isEqualTo(DType.FP8_E4M3);
      assertThat(shared.factors().orElseThrow().w2().shape()).containsExactly(2, 3);
      List<ExpertWeights> all = weights.dequantised().experts();
      for (int e = 0; e < 8; e++) {
        assertThat(all.get(e).factors()).isEmpty();
        assertThat(all.get(e).w1().toFloatArray()).isEqualTo(layer.experts.get(e)[0]);
        assertThat(all.get(e).w3().toFloatArray()).isEqualTo(layer.experts.get(e)[1]);
        assertThat(all.get(e).w2().toFloatArray()).isEqualTo(layer.experts.get(e)[2]);
      }
      assertThat(all.getFirst().dequantised()).isSameAs(all.getFirst());
    }
    // One matrix in FP32 beside two of FP8.
    String name = prefix + "experts.2.up_proj.weight";
    tensors.remove(name + "_scale_inv");
    tensors.put(name, Tensor.of(layer.experts.get(2)[1], 136, 160));
    CheckpointFiles.write(directory, CheckpointFiles.DEEPSEEK, tensors);
    try (MoeCheckpoint checkpoint = MoeCheckpoint.open(directory)) {
      ExpertWeights mixed = checkpoint.weights(1, ExpertPlacement.blocks(8, 1), 0).experts().get(2);
      assertThat(mixed.factors()).isEmpty();
      assertThat(mixed.w1().toFloatArray()).isEqualTo(layer.experts.get(2)[0]);
      assertThat(mixed.w3().toFloatArray()).isEqualTo(layer.experts.get(2)[1]);
    }
  }

  /** On two ranks, against plain arithmetic. */
  private void assertLayer(PlainMoe plain, int number, List<Integer> layers) {
    int hidden = plain.shape.hidden();
    float[] x = PlainMoe.values(new Random(4), TOKENS * hidden, 3);
    List<float[]> results =
        ThreadRanks.call(
            2,
            group -> {
              try (MoeCheckpoint checkpoint = MoeCheckpoint.open(directory);
                  ExpertBuffer buffer =
                      ExpertBuffer.open(
                          group, MoeLayer.bufferConfig(checkpoint.shape(), 2, TOKENS).build())) {
                assertThat(checkpoint.shape()).isEqualTo(plain.shape);
                assertThat(checkpoint.layers()).isEqualTo(layers);
                var placement = ExpertPlacement.blocks(plain.shape.router().experts(), 2);
                MoeWeights weights = checkpoint.weights(number, placement, group.rank());
                return new MoeLayer(buffer, plain.shape, weights)
                    .forward(Tensor.of(x, TOKENS, hidden))
                    .toFloatArray();
              }
            });
    for (int token = 0; token < TOKENS; token++) {
      int from = token * hidden;
      double[] expected = plain.forward(Arrays.copyOfRange(x, from, from + hidden));
      double largest = Arrays.stream(expected).map(Math::abs).max().orElseThrow();
      for (int h = 0; h < hidden; h++) {
        for (float[] y : results) {
          assertThat((double) y[from + h]).isCloseTo(expected[h], Offset.offset(5e-6 * largest));
        }
      }
    }
  }

  @Test
  void replicasHaveTheWeightsOfTheirExpert() throws IOException {
    var shape = new MoeShape(24, 20, 0, RouterConfig.softmax(8, 2));
    Map<String, Tensor> tensors =
        CheckpointFiles.tensors(
            new PlainMoe(shape, 6), "model.layers.0.block_sparse_moe.", MIXTRAL_NAMES, DType.FP32);
    CheckpointFiles.write(directory, CheckpointFiles.MIXTRAL, tensors);
    int[] logicalOf = {0, 1, 2, 3, 4, 5, 6, 7, 2, 1};
    int[] rankOf = {0, 1, 0, 1, 0, 0, 0, 0, 1, 1};
    var placement = ReplicatedPlacement.of(ExpertPlacement.table(rankOf, 2), logicalOf, 8);
    try (MoeCheckpoint checkpoint = MoeCheckpoint.open(directory)) {
      List<ExpertWeights> all = checkpoint.weights(0, ExpertPlacement.blocks(8, 1), 0).experts();
      List<ExpertWeights> own = checkpoint.weights(0, placement, 1).experts();
      assertThat(own).hasSize(4);
      int[] expected = {1, 3, 2, 1};
      for (int local = 0; local < 4; local++) {
        assertThat(own.get(local).w2().toFloatArray())
            .containsExactly(all.get(expected[local]).w2().toFloatArray());
      }
    }
  }

  @Test
  void tensorsThatDoNotFitAreNamed() throws IOException {
    var shape = new MoeShape(24, 20, 0, RouterConfig.softmax(8, 2));
    String prefix = "model.layers.0.block_sparse_moe.";
    Map<String, Tensor> tensors =
        CheckpointFiles.tensors(new PlainMoe(shape, 5), prefix, MIXTRAL_NAMES, DType.FP32);
    Tensor w1 = Objects.requireNonNull(tensors.remove(prefix + "experts.3.w1.weight"));
    refused(tensors, ErrorCode.CHECKPOINT_TENSORS, "missing tensors = " + prefix + "experts.3.w1");
    tensors.put(prefix + "experts.3.w1.weight", w1.reshape(24, 20));
    refused(tensors, ErrorCode.CHECKPOINT_SHAPE, prefix + "experts.3.w1.weight");
    tensors.put(prefix + "experts.3.w1.weight", w1);
    tensors.put(prefix + "experts.8.w1.weight", w1);
    refused(tensors, ErrorCode.CHECKPOINT_TENSORS, "unknown tensors = " + prefix + "experts.8.w1");
    tensors.remove(prefix + "experts.8.w1.weight");
    tensors.put(
        prefix + "experts.3.w1.weight",
        Tensor.fromFloats(w1.toFloatArray(), DType.FP8_E4M3, 20, 24));
    refused(tensors, ErrorCode.CHECKPOINT_TENSORS, "experts.3.w1.weight_scale_inv");
    refused(
        () -> {
          try (MoeCheckpoint checkpoint = MoeCheckpoint.open(directory)) {
            checkpoint.weights(2, ExpertPlacement.blocks(8, 1), 0);
          }
        },
        ErrorCode.CHECKPOINT_TENSORS,
        "layer = 2");
  }

  private void refused(Map<String, Tensor> tensors, ErrorCode code, String text)
      throws IOException {
    CheckpointFiles.write(directory, CheckpointFiles.MIXTRAL, tensors);
    refused(
        () -> {
          try (MoeCheckpoint checkpoint = MoeCheckpoint.open(directory)) {
            checkpoint.weights(0, ExpertPlacement.blocks(8, 1), 0);
          }
        },
        code,
        text);
  }

  @Test
  void otherFilesAreRefused() throws IOException {
    refused("config.json");
    config("{");
    refused("config.json");
    config("{\"model_type\": \"llama\"}");
    refused("model_type is llama");
    config(CheckpointFiles.MIXTRAL.replace("num_local_experts", "experts"));
    refused("num_local_experts is missing");
    config(CheckpointFiles.MIXTRAL.replace("\"num_local_experts\": 8", "\"num_local_experts\": 1"));
    refused("topK");
    config(
        CheckpointFiles.QWEN3.replace("\"decoder_sparse_step\": 2", "\"decoder_sparse_step\": 0"));
    refused("decoder_sparse_step");
    config(CheckpointFiles.MIXTRAL);
    refused("model.safetensors.index.json");
    Path index = directory.resolve("model.safetensors.index.json");
    Files.writeString(index, "{}");
    refused("weight_map is missing");
    Files.writeString(index, "{\"weight_map\": {\"a\": \"b.safetensors\"}}");
    refused("b.safetensors");
  }

  private void config(String text) throws IOException {
    Files.writeString(directory.resolve("config.json"), text);
  }

  private void refused(String text) {
    refused(() -> MoeCheckpoint.open(directory).close(), ErrorCode.CHECKPOINT_MODEL, text);
  }

  private static void refused(ThrowingCallable call, ErrorCode code, String text) {
    assertThatThrownBy(call)
        .isInstanceOfSatisfying(
            InvalidArgumentException.class, e -> assertThat(e.errorCode()).isEqualTo(code))
        .hasMessageContaining(text);
  }
}
