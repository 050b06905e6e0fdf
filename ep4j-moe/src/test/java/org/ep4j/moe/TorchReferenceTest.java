package org.ep4j.moe;

import static org.assertj.core.api.Assertions.assertThat;
import static org.junit.jupiter.api.Assumptions.assumeTrue;

import java.io.IOException;
import java.io.InputStream;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.Random;
import java.util.concurrent.TimeUnit;
import org.assertj.core.data.Offset;
import org.ep4j.ExpertBuffer;
import org.ep4j.group.ThreadRanks;
import org.ep4j.io.SafetensorsFile;
import org.ep4j.io.SafetensorsWriter;
import org.ep4j.routing.ExpertPlacement;
import org.ep4j.tensor.DType;
import org.ep4j.tensor.Tensor;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** Results and gradients of checkpoints against PyTorch's, on two ranks. */
class TorchReferenceTest {
  private static final Path PYTHON = Path.of("/usr/bin/python3");
  private static final int TOKENS = 21;

  @TempDir Path directory;

  @BeforeEach
  void requireTorch() throws IOException, InterruptedException {
    assumeTrue(Boolean.getBoolean("ep4j.full"), "10 s: with -Dep4j.full=true");
    boolean there =
        Files.isExecutable(PYTHON)
            && run(Path.of("."), List.of(PYTHON.toString(), "-c", "import torch")).isEmpty();
    assumeTrue(there, PYTHON + " has no torch (Debian: python3-torch)");
  }

  @Test
  void mixtral() throws IOException, InterruptedException {
    var shape = new MoeShape(24, 20, 0, RouterConfig.softmax(8, 2));
    compare(
        new PlainMoe(shape, 1),
        CheckpointFiles.MIXTRAL,
        1,
        "model.layers.1.block_sparse_moe.",
        List.of("w1", "w3", "w2"));
  }

  @Test
  void qwen3() throws IOException, InterruptedException {
    var shape = new MoeShape(24, 16, 0, RouterConfig.softmax(12, 3));
    compare(
        new PlainMoe(shape, 2),
        CheckpointFiles.QWEN3,
        5,
        "model.layers.5.mlp.",
        List.of("gate_proj", "up_proj", "down_proj"));
  }

  @Test
  void deepSeekV3() throws IOException, InterruptedException {
    var shape = new MoeShape(160, 136, 272, RouterConfig.sigmoid(8, 3, 4, 2, 2.5f));
    compare(
        new PlainMoe(shape, 3),
        CheckpointFiles.DEEPSEEK,
        2,
        "model.layers.2.mlp.",
        List.of("gate_proj", "up_proj", "down_proj"));
  }

  private void compare(PlainMoe plain, String config, int layer, String prefix, List<String> names)
      throws IOException, InterruptedException {
    MoeShape shape = plain.shape;
    CheckpointFiles.write(
        directory, config, CheckpointFiles.tensors(plain, prefix, names, DType.BF16));
    Path inputs = directory.resolve("inputs.safetensors");
    Path outputs = directory.resolve("outputs.safetensors");
    float[] x = PlainMoe.values(new Random(4), TOKENS * shape.hidden(), 3);
    float[] grad = PlainMoe.values(new Random(5), TOKENS * shape.hidden(), 3);
    SafetensorsWriter.write(
        inputs,
        Map.of(),
        Map.of(
            "x", Tensor.of(x, TOKENS, shape.hidden()),
            "grad", Tensor.of(grad, TOKENS, shape.hidden())));
    Path script = directory.resolve("reference.py");
    try (InputStream in = TorchReferenceTest.class.getResourceAsStream("reference.py")) {
      Files.write(script, in.readAllBytes());
    }
    String said =
        run(
            directory,
            List.of(
                PYTHON.toString(),
                script.toString(),
                directory.toString(),
                String.valueOf(layer),
                inputs.toString(),
                outputs.toString()));
    assertThat(said).isEmpty();
    try (SafetensorsFile expected = SafetensorsFile.open(outputs)) {
      ThreadRanks.run(
          2,
          group -> {
            try (MoeCheckpoint checkpoint = MoeCheckpoint.open(directory);
                ExpertBuffer buffer =
                    ExpertBuffer.open(
                        group, MoeLayer.bufferConfig(checkpoint.shape(), 2, TOKENS).build())) {
              var placement = ExpertPlacement.blocks(shape.router().experts(), 2);
              var of =
                  new MoeLayer(buffer, shape, checkpoint.weights(layer, placement, group.rank()));
              // Rank 0 has all tokens: gradients of router and shared expert are complete there.
              int tokens = group.rank() == 0 ? TOKENS : 0;
              int length = tokens * shape.hidden();
              ForwardPass pass =
                  of.forwardForTraining(
                      Tensor.of(Arrays.copyOf(x, length), tokens, shape.hidden()));
              MoeGradients gradients =
                  of.backward(pass, Tensor.of(Arrays.copyOf(grad, length), tokens, shape.hidden()));
              if (group.rank() == 0) {
                assertClose(pass.y(), expected.tensor("y"));
                assertClose(gradients.x(), expected.tensor("x"));
                assertClose(gradients.router(), expected.tensor(prefix + "gate.weight"));
                gradients
                    .shared()
                    .ifPresent(s -> assertClose(s, expected, prefix + "shared_experts.", names));
              }
              for (int local = 0; local < gradients.experts().size(); local++) {
                String name = prefix + "experts." + placement.expertAt(group.rank(), local) + ".";
                assertClose(gradients.experts().get(local), expected, name, names);
              }
            }
          });
    }
  }

  private static void assertClose(
      ExpertWeights weights, SafetensorsFile expected, String prefix, List<String> names) {
    assertClose(weights.w1(), expected.tensor(prefix + names.get(0) + ".weight"));
    assertClose(weights.w3(), expected.tensor(prefix + names.get(1) + ".weight"));
    assertClose(weights.w2(), expected.tensor(prefix + names.get(2) + ".weight"));
  }

  /** Within the rounding of sums of hundreds of terms in single precision. */
  private static void assertClose(Tensor tensor, Tensor expected) {
    assertThat(tensor.shape()).isEqualTo(expected.shape());
    float[] values = tensor.toFloatArray();
    float[] truth = expected.toFloatArray();
    float largest = 0;
    for (float value : truth) {
      largest = Math.max(largest, Math.abs(value));
    }
    for (int i = 0; i < values.length; i++) {
      assertThat(values[i]).isCloseTo(truth[i], Offset.offset(1e-5f * largest));
    }
  }

  /** What a program prints. */
  private static String run(Path directory, List<String> command)
      throws IOException, InterruptedException {
    Path out = Files.createTempFile("torch", ".txt");
    try {
      Process process =
          new ProcessBuilder(command)
              .directory(directory.toFile())
              .redirectErrorStream(true)
              .redirectOutput(out.toFile())
              .start();
      if (!process.waitFor(2, TimeUnit.MINUTES)) {
        process.destroyForcibly();
      }
      String text = Files.readString(out, StandardCharsets.UTF_8);
      return process.waitFor() == 0 ? text : text + "status " + process.exitValue();
    } finally {
      Files.delete(out);
    }
  }
}
