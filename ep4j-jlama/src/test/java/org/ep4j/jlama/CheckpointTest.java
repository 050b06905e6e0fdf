package org.ep4j.jlama;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.catchThrowableOfType;
import static org.assertj.core.api.Assertions.within;

import com.github.tjake.jlama.safetensors.DType;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.List;
import org.ep4j.error.ErrorCode;
import org.ep4j.error.InvalidArgumentException;
import org.ep4j.group.Group;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** Which checkpoints are read; others are refused before a rank waits for another one. */
class CheckpointTest {
  private static final String EXPERT = "model.layers.1.block_sparse_moe.experts.3.w2.weight";

  private final TinyMixtral model = TinyMixtral.random(1);

  @TempDir Path directory;

  @BeforeEach
  void write() throws IOException {
    model.write(directory);
  }

  @Test
  void aModelWithoutExpertsIsRefused() throws IOException {
    config(model.config("llama"));
    assertRefused(ErrorCode.CHECKPOINT_MODEL, "model_type is llama");
    config("{}");
    assertRefused(ErrorCode.CHECKPOINT_MODEL, "model_type is missing");
    config(model.config("mixtral").replace("num_local_experts", "experts"));
    assertRefused(ErrorCode.CHECKPOINT_MODEL, "num_local_experts is missing");
  }

  @Test
  void aConfigurationThatCannotBeReadIsRefused() throws IOException {
    config("{");
    assertRefused(ErrorCode.CHECKPOINT_MODEL, "config.json (");
    Files.delete(directory.resolve("config.json"));
    assertRefused(ErrorCode.CHECKPOINT_MODEL, "config.json (");
  }

  @Test
  void missingTensorsAreNamed() throws IOException {
    model.weights().remove(EXPERT);
    model.writeWeights(directory);
    assertRefused(ErrorCode.CHECKPOINT_TENSORS, "missing tensors = " + EXPERT + ";");
  }

  /** As where the configuration says fewer experts than the weights have. */
  @Test
  void unknownTensorsAreNamed() throws IOException {
    config(model.config("mixtral").replace("\"num_local_experts\": 4", "\"num_local_experts\": 3"));
    assertRefused(
        ErrorCode.CHECKPOINT_TENSORS,
        "unknown tensors = model.layers.0.block_sparse_moe.experts.3.w1.weight, ",
        " and 3 more; it must be none for 2 layers and 3 experts");
  }

  @Test
  void aTensorOfAnotherShapeIsNamed() throws IOException {
    model.shapes().put(EXPERT, new long[] {96, 128});
    model.writeWeights(directory);
    assertRefused(
        ErrorCode.CHECKPOINT_SHAPE,
        EXPERT + " = a tensor of shape [96, 128]; it must be [128, 96]");
  }

  @Test
  void withoutOutputWeightsTheEmbeddingsServe() throws IOException {
    model.weights().put("lm_head.weight", model.weight("model.embed_tokens.weight"));
    double[] expected = PlainMixtral.exact(model).logits(List.of(1, 5));
    model.weights().remove("lm_head.weight");
    model.writeWeights(directory);
    Group group = Group.inProcess(1).getFirst();
    try (group;
        var loaded = ExpertParallelMixtral.load(directory, group, Duration.ofSeconds(30))) {
      var logits = Decoder.run(loaded, List.of(1, 5), 1).logits().getFirst();
      for (int token = 0; token < expected.length; token++) {
        assertThat((double) logits.get(token)).isCloseTo(expected[token], within(1e-5));
      }
    }
  }

  /** Four bits a weight: the truth computes with the weights that the files have. */
  @Test
  void aCheckpointThatJlamaQuantizedIsRead() throws IOException {
    Path quantized = directory.resolve("quantized");
    model.writeQuantized(DType.Q4, quantized);
    Checkpoint checkpoint = Checkpoint.open(quantized);
    model.shapes().forEach((name, shape) -> read(checkpoint, name, model.weight(name), shape));
    double[] expected = PlainMixtral.exact(model).logits(List.of(1, 5));
    Group group = Group.inProcess(1).getFirst();
    try (group;
        var loaded = ExpertParallelMixtral.load(quantized, group, Duration.ofSeconds(30))) {
      var logits = Decoder.run(loaded, List.of(1, 5), 1).logits().getFirst();
      for (int token = 0; token < expected.length; token++) {
        assertThat((double) logits.get(token)).isCloseTo(expected[token], within(1e-5));
      }
    }
  }

  private static void read(Checkpoint checkpoint, String name, float[] values, long[] shape) {
    int columns = (int) shape[shape.length - 1];
    try (var tensor = checkpoint.weights().load(name)) {
      for (int i = 0; i < values.length; i++) {
        values[i] = tensor.get(i / columns, i % columns);
      }
    }
  }

  private void config(String text) throws IOException {
    Files.writeString(directory.resolve("config.json"), text);
  }

  /** By rank 0 of 2, alone: it does not wait. */
  private void assertRefused(ErrorCode code, String... words) {
    Group group = Group.inProcess(2).getFirst();
    try (group) {
      var refused =
          catchThrowableOfType(
              InvalidArgumentException.class,
              () -> ExpertParallelMixtral.load(directory, group, Duration.ofSeconds(30)));
      assertThat(refused).isNotNull();
      assertThat(refused.errorCode()).isEqualTo(code);
      assertThat(refused).hasMessageContainingAll(words);
    }
  }
}
