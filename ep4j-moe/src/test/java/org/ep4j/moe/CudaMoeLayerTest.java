package org.ep4j.moe;

import static org.assertj.core.api.Assertions.assertThat;
import static org.junit.jupiter.api.Assumptions.assumeTrue;

import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.stream.Stream;
import org.ep4j.ExpertBuffer;
import org.ep4j.config.EngineName;
import org.ep4j.cuda.driver.CudaDevice;
import org.ep4j.group.ThreadRanks;
import org.ep4j.io.SafetensorsFile;
import org.ep4j.routing.ExpertPlacement;
import org.ep4j.routing.ReplicatedPlacement;
import org.ep4j.tensor.DType;
import org.ep4j.tensor.Tensor;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/**
 * A layer on GPUs against the layer on the host in FP32, and against the blocks of transformers.
 *
 * <p>Ranks are threads where each has a GPU of its own, otherwise processes: a GPU loads a kernel
 * at its first use only when all kernels of the process have ended, so that a rank which calls
 * something new, cuBLAS for example, would wait for the kernels of the other rank, which wait for
 * this one. Processes have GPU contexts of their own.
 */
class CudaMoeLayerTest extends MoeLayerKit {
  /** Directory that moe_reference.py has written. */
  private static final String REFERENCE = "ep4j.moe.reference";

  @TempDir Path directory;

  private static void requireGpu() {
    assumeTrue(CudaDevice.count() > 0, "no GPU");
  }

  @Override
  TestDevice.Kind device() {
    requireGpu();
    return new CudaTestDevice.Gpu();
  }

  @Override
  Stream<LayerCase> cases() {
    return Stream.of(
        new LayerCase("mixtral", 1, false, 23),
        new LayerCase("mixtral", 2, true, 23),
        new LayerCase("qwen", 2, false, 23),
        new LayerCase("deepseek", 1, true, 23),
        new LayerCase("deepseek", 2, false, 1),
        new LayerCase("deepseek", 3, false, 23),
        new LayerCase("larger", 1, false, 256),
        new LayerCase("larger", 2, true, 256),
        new LayerCase("mixtral", 1, false, 23).inFp8(),
        new LayerCase("sent", 2, false, 23).inFp8(),
        new LayerCase("deepseek", 3, true, 23).inFp8(),
        new LayerCase("larger", 2, true, 256).inFp8(),
        new LayerCase("weights", 1, false, 23),
        new LayerCase("parts", 1, false, 23),
        new LayerCase("larger weights", 2, true, 256),
        new LayerCase("products", 2, false, 23).inFp8(),
        new LayerCase("larger weights", 1, false, 256).inFp8());
  }

  @Override
  List<LayerResults> run(LayerCase of) {
    requireGpu();
    if (of.ranks() <= CudaDevice.count()) {
      return super.run(of);
    }
    return LayerJob.run(of, CudaTestDevice.Gpu.class, directory);
  }

  /** Rank 0 has all tokens: gradients of router and shared expert are complete there. */
  @ParameterizedTest
  @ValueSource(strings = {"mixtral", "qwen3_moe", "deepseek_v3"})
  void resultsAndGradientsAreThoseOfTransformers(String model) {
    assumeTrue(System.getProperty(REFERENCE) != null, "-D" + REFERENCE + " names no directory");
    requireGpu();
    int ranks = CudaDevice.count() > 1 ? 2 : 1;
    Path directory = Path.of(System.getProperty(REFERENCE)).resolve(model);
    assertThat(Files.isDirectory(directory)).as(directory.toString()).isTrue();
    System.out.println(model + " of transformers, " + ranks + " ranks:");
    ThreadRanks.run(
        ranks,
        group -> {
          try (MoeCheckpoint checkpoint = MoeCheckpoint.open(directory);
              SafetensorsFile inputs =
                  SafetensorsFile.open(directory.resolve("inputs.safetensors"));
              SafetensorsFile outputs =
                  SafetensorsFile.open(directory.resolve("outputs.safetensors"))) {
            MoeShape shape = checkpoint.shape();
            int hidden = shape.hidden();
            float[] x = inputs.tensor("x").toFloatArray();
            float[] grad = inputs.tensor("grad").toFloatArray();
            int length = group.rank() == 0 ? x.length : 0;
            var placement =
                ReplicatedPlacement.of(ExpertPlacement.blocks(shape.router().experts(), ranks));
            try (ExpertBuffer buffer =
                    ExpertBuffer.open(
                        group,
                        MoeLayer.bufferConfig(EngineName.CUDA, shape, placement, x.length / hidden)
                            .build());
                TestDevice device =
                    new CudaTestDevice(
                        buffer,
                        new MoeLayer(
                            buffer,
                            shape,
                            placement,
                            checkpoint.weights(1, placement, group.rank())))) {
              Tensor tokens = device.upload(Arrays.copyOf(x, length), DType.BF16, hidden);
              Tensor grads = device.upload(Arrays.copyOf(grad, length), DType.BF16, hidden);
              buffer.barrier();
              ForwardPass pass = device.layer().forwardForTraining(tokens);
              float[] y = pass.y().toFloatArray();
              MoeGradients gradients = device.layer().backward(pass, grads);
              if (group.rank() == 0) {
                Closeness.assertClose("y", y, outputs.tensor("y").toFloatArray());
                compare(model, gradients, outputs, placement);
              }
              group.barrier(buffer.config().timeout());
            }
          }
        });
  }

  private static List<float[]> matrices(ExpertWeights weights) {
    return LayerResults.matrices(weights, Tensor::toFloatArray);
  }

  private static void compare(
      String model,
      MoeGradients gradients,
      SafetensorsFile outputs,
      ReplicatedPlacement placement) {
    boolean mixtral = model.equals("mixtral");
    String prefix = "model.layers.1." + (mixtral ? "block_sparse_moe." : "mlp.");
    List<String> names =
        mixtral ? List.of("w1", "w3", "w2") : List.of("gate_proj", "up_proj", "down_proj");
    Closeness.assertClose(
        "gradient of x", gradients.x().toFloatArray(), outputs.tensor("x").toFloatArray());
    Closeness.assertClose(
        "gradient of router",
        gradients.router().toFloatArray(),
        outputs.tensor(prefix + "gate.weight").toFloatArray());
    for (int m = 0; m < 3; m++) {
      List<float[]> actual = new ArrayList<>();
      List<float[]> expected = new ArrayList<>();
      for (int local = 0; local < gradients.experts().size(); local++) {
        int expert = placement.placement().expertAt(0, local);
        actual.add(matrices(gradients.experts().get(local)).get(m));
        expected.add(
            outputs
                .tensor(prefix + "experts." + expert + "." + names.get(m) + ".weight")
                .toFloatArray());
      }
      Closeness.assertClose(
          "gradient of " + names.get(m), Closeness.joined(actual), Closeness.joined(expected));
      if (gradients.shared().isPresent()) {
        Closeness.assertClose(
            "gradient of shared " + names.get(m),
            matrices(gradients.shared().get()).get(m),
            outputs.tensor(prefix + "shared_experts." + names.get(m) + ".weight").toFloatArray());
      }
    }
  }
}
