package org.ep4j.moe;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;
import static org.junit.jupiter.api.Assumptions.assumeTrue;

import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Objects;
import java.util.Random;
import java.util.stream.IntStream;
import org.ep4j.ExpertBuffer;
import org.ep4j.config.BufferConfig;
import org.ep4j.config.EngineName;
import org.ep4j.config.LowLatencyConfig;
import org.ep4j.cuda.driver.CudaDevice;
import org.ep4j.cuda.driver.DeviceMemory;
import org.ep4j.error.ErrorCode;
import org.ep4j.error.InvalidArgumentException;
import org.ep4j.group.ThreadRanks;
import org.ep4j.io.SafetensorsFile;
import org.ep4j.routing.ExpertPlacement;
import org.ep4j.routing.ReplicatedPlacement;
import org.ep4j.tensor.DType;
import org.ep4j.tensor.Tensor;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.ValueSource;

/**
 * A layer on GPUs against the layer on the host in FP32, with the same weights and one rank, and
 * against the blocks of transformers. Ranks are threads.
 */
class CudaMoeLayerTest {
  /**
   * Bound of each difference over the largest element of its tensor. The roundings to BF16 on the
   * way are of 2^-9 each: rows, factors, SwiGLU, results, partial sums.
   */
  private static final double BOUND = 0.012;

  /** Directory that moe_reference.py has written. */
  private static final String REFERENCE = "ep4j.moe.reference";

  private static void requireGpus(int ranks) {
    int devices = CudaDevice.count();
    assumeTrue(devices > 0, "no GPU");
    // A kernel that is loaded late waits for kernels of the other rank, which wait for this one.
    assumeTrue(
        devices >= ranks || "EAGER".equals(System.getenv("CUDA_MODULE_LOADING")),
        () -> ranks + " ranks on " + devices + " GPUs need CUDA_MODULE_LOADING=EAGER");
  }

  private static MoeShape shape(String model) {
    return switch (model) {
      case "mixtral" -> new MoeShape(128, 40, 0, RouterConfig.softmax(8, 2));
      case "qwen" ->
          new MoeShape(
              128, 24, 0, new RouterConfig(12, 3, RouterConfig.Scores.SOFTMAX, false, 1, 4, 2));
      case "deepseek" -> new MoeShape(128, 32, 56, RouterConfig.sigmoid(12, 4, 4, 2, 2.5f));
      default -> new MoeShape(1024, 512, 512, RouterConfig.sigmoid(32, 4, 8, 4, 2.5f));
    };
  }

  /** A layer with weights that BF16 has. */
  private static PlainMoe plain(MoeShape shape) {
    var plain = new PlainMoe(shape, 21);
    // Logits of about 1: scores near 1 would be equal on one side, and differ on the other.
    for (int i = 0; i < plain.router.length; i++) {
      plain.router[i] *= 3 / (float) Math.sqrt(shape.hidden());
    }
    round(plain.router);
    plain.experts.forEach(expert -> Arrays.stream(expert).forEach(CudaMoeLayerTest::round));
    Arrays.stream(plain.shared).forEach(CudaMoeLayerTest::round);
    return plain;
  }

  private static void round(float[] values) {
    if (values.length > 0) {
      float[] rounded = Tensor.fromFloats(values, DType.BF16, values.length).toFloatArray();
      System.arraycopy(rounded, 0, values, 0, values.length);
    }
  }

  private static float[] values(int seed, int length) {
    float[] values = PlainMoe.values(new Random(seed), length, 3);
    round(values);
    return values;
  }

  /** What a rank has, on the host. */
  private record OfRank(
      float[] forward,
      float[] decoded,
      float[] gradOfX,
      float[] gradOfRouter,
      List<List<float[]>> gradOfExperts,
      List<float[]> gradOfShared) {}

  /** Memory of a GPU for tensors of a test. */
  private static final class Uploads implements AutoCloseable {
    private final CudaDevice device;
    private final List<DeviceMemory> memory = new ArrayList<>();

    private Uploads(int ordinal) {
      device = CudaDevice.open(ordinal);
    }

    Tensor of(float[] values, DType type, int hidden) {
      DeviceMemory part = DeviceMemory.allocate(device, Math.max(1, type.bytes(values.length)));
      memory.add(part);
      int rows = values.length / hidden;
      Tensor tensor = Tensor.ofDevice(part.address(), device.ordinal(), type, rows, hidden);
      if (rows > 0) {
        tensor.copyFrom(values);
      }
      return tensor;
    }

    @Override
    public void close() {
      memory.forEach(DeviceMemory::close);
      device.close();
    }
  }

  private static BufferConfig config(
      String engine, MoeShape shape, ReplicatedPlacement placement, int tokens) {
    BufferConfig.Builder config = MoeLayer.bufferConfig(engine, shape, placement, tokens);
    return shape.hidden() % 128 == 0
        ? config.lowLatency(LowLatencyConfig.of(64)).build()
        : config.build();
  }

  private static OfRank onHost(PlainMoe plain, float[] x, float[] grad) {
    int hidden = plain.shape.hidden();
    int tokens = x.length / hidden;
    var once = ReplicatedPlacement.of(ExpertPlacement.blocks(plain.shape.router().experts(), 1));
    return ThreadRanks.call(
            1,
            group -> {
              try (ExpertBuffer buffer =
                      ExpertBuffer.open(group, config(EngineName.HOST, plain.shape, once, tokens));
                  MoeLayer layer =
                      new MoeLayer(buffer, plain.shape, once, plain.weights(once, 0))) {
                ForwardPass pass = layer.forwardForTraining(Tensor.of(x, tokens, hidden));
                float[] y = pass.y().toFloatArray();
                return ofRank(y, y, layer.backward(pass, Tensor.of(grad, tokens, hidden)));
              }
            })
        .getFirst();
  }

  private static OfRank ofRank(float[] forward, float[] decoded, MoeGradients gradients) {
    return new OfRank(
        forward,
        decoded,
        gradients.x().toFloatArray(),
        gradients.router().toFloatArray(),
        gradients.experts().stream().map(CudaMoeLayerTest::matrices).toList(),
        gradients.shared().map(CudaMoeLayerTest::matrices).orElse(List.of()));
  }

  private static List<float[]> matrices(ExpertWeights weights) {
    return List.of(
        weights.w1().toFloatArray(), weights.w3().toFloatArray(), weights.w2().toFloatArray());
  }

  /** Ranks share the tokens in order; the last of three has none. */
  private static List<OfRank> onGpus(
      PlainMoe plain, ReplicatedPlacement placement, float[] x, float[] grad) {
    int hidden = plain.shape.hidden();
    int tokens = x.length / hidden;
    int shares = placement.ranks() == 3 ? 2 : placement.ranks();
    return ThreadRanks.call(
        placement.ranks(),
        group -> {
          int from = Math.min(shares, group.rank()) * tokens / shares * hidden;
          int to = Math.min(shares, group.rank() + 1) * tokens / shares * hidden;
          float[] own = Arrays.copyOfRange(x, from, to);
          float[] grads = Arrays.copyOfRange(grad, from, to);
          try (ExpertBuffer buffer =
                  ExpertBuffer.open(
                      group, config(EngineName.CUDA, plain.shape, placement, tokens));
              MoeLayer layer =
                  new MoeLayer(
                      buffer, plain.shape, placement, plain.weights(placement, group.rank()));
              Uploads uploads = new Uploads(buffer.deviceOrdinal().orElseThrow())) {
            // No rank loads anything once a kernel of another one waits for it.
            buffer.barrier();
            Tensor tokensOfRank = uploads.of(own, DType.BF16, hidden);
            float[] forward = layer.forward(tokensOfRank).toFloatArray();
            float[] decoded = decode(layer, uploads, own, hidden, tokens);
            OfRank result = null;
            for (DType type : List.of(DType.BF16, DType.FP32)) {
              ForwardPass pass = layer.forwardForTraining(tokensOfRank);
              assertThat(pass.y().toFloatArray()).isEqualTo(forward);
              assertThat(layer.forward(tokensOfRank).toFloatArray()).isEqualTo(forward);
              OfRank next =
                  ofRank(forward, decoded, layer.backward(pass, uploads.of(grads, type, hidden)));
              if (result != null) {
                assertThat(next.gradOfX).isEqualTo(result.gradOfX);
                assertThat(next.gradOfRouter).isEqualTo(result.gradOfRouter);
              }
              result = next;
            }
            LayerTimes times = layer.times();
            assertThat(times.experts()).isPositive();
            return Objects.requireNonNull(result);
          }
        });
  }

  /** By calls of at most 64 tokens; all ranks make as many. */
  private static float[] decode(
      MoeLayer layer, Uploads uploads, float[] own, int hidden, int tokens) {
    var all = new float[own.length];
    for (int call = 0; call * 64 < tokens; call++) {
      int from = Math.min(own.length, call * 64 * hidden);
      int to = Math.min(own.length, (call + 1) * 64 * hidden);
      Tensor part = uploads.of(Arrays.copyOfRange(own, from, to), DType.BF16, hidden);
      float[] decoded = layer.decode(part).toFloatArray();
      System.arraycopy(decoded, 0, all, from, decoded.length);
    }
    return all;
  }

  private static float[] joined(List<float[]> parts) {
    var all = new float[parts.stream().mapToInt(part -> part.length).sum()];
    int at = 0;
    for (float[] part : parts) {
      System.arraycopy(part, 0, all, at, part.length);
      at += part.length;
    }
    return all;
  }

  private static float[] sum(List<float[]> parts) {
    var sum = new float[parts.getFirst().length];
    for (float[] part : parts) {
      for (int i = 0; i < sum.length; i++) {
        sum[i] += part[i];
      }
    }
    return sum;
  }

  /**
   * Bound of the gradient of the router: it has differences between the choices of a token, which
   * are similar, and few tokens do not average their errors.
   */
  private static double boundOfRouter(int tokens) {
    return tokens > 1 ? BOUND : 3 * BOUND;
  }

  private static void assertClose(String what, float[] actual, float[] expected) {
    assertClose(what, actual, expected, BOUND);
  }

  private static void assertClose(String what, float[] actual, float[] expected, double bound) {
    assertThat(actual).as(what).hasSameSizeAs(expected);
    double largest = 0;
    double difference = 0;
    for (int i = 0; i < expected.length; i++) {
      assertThat(actual[i]).as(what).isFinite();
      largest = Math.max(largest, Math.abs(expected[i]));
      difference = Math.max(difference, Math.abs((double) actual[i] - expected[i]));
    }
    System.out.printf("  %s: %.5f of the largest%n", what, difference / largest);
    assertThat(largest).as(what).isPositive();
    assertThat(difference / largest).as(what).isLessThan(bound);
  }

  @ParameterizedTest
  @CsvSource({
    "mixtral, 1, false, 23",
    "mixtral, 2, true, 23",
    "qwen, 2, false, 23",
    "deepseek, 1, true, 23",
    "deepseek, 2, false, 1",
    "deepseek, 3, false, 23",
    "larger, 1, false, 256",
    "larger, 2, true, 256"
  })
  void resultsAndGradientsAreThoseOfTheHost(String model, int ranks, boolean replicas, int tokens) {
    requireGpus(ranks);
    MoeShape shape = shape(model);
    PlainMoe plain = plain(shape);
    float[] x = values(22, tokens * shape.hidden());
    float[] grad = values(23, tokens * shape.hidden());
    OfRank host = onHost(plain, x, grad);
    int experts = shape.router().experts();
    int[] logicalOf =
        IntStream.range(0, replicas ? experts + 4 : experts).map(p -> p % experts).toArray();
    ReplicatedPlacement placement =
        ReplicatedPlacement.of(ExpertPlacement.blocks(logicalOf.length, ranks), logicalOf, experts);
    List<OfRank> gpus = onGpus(plain, placement, x, grad);
    System.out.println(model + " on " + ranks + " ranks:");
    assertClose("forward", joined(gpus.stream().map(OfRank::forward).toList()), host.forward);
    assertClose("decode", joined(gpus.stream().map(OfRank::decoded).toList()), host.forward);
    assertClose("gradient of x", joined(gpus.stream().map(OfRank::gradOfX).toList()), host.gradOfX);
    assertClose(
        "gradient of router",
        sum(gpus.stream().map(OfRank::gradOfRouter).toList()),
        host.gradOfRouter,
        boundOfRouter(tokens));
    List<List<float[]>> physical =
        gpus.stream().flatMap(rank -> rank.gradOfExperts.stream()).toList();
    for (int m = 0; m < 3; m++) {
      int matrix = m;
      List<float[]> ofExperts = new ArrayList<>();
      for (int e = 0; e < experts; e++) {
        int expert = e;
        ofExperts.add(
            sum(
                IntStream.range(0, logicalOf.length)
                    .filter(p -> logicalOf[p] == expert)
                    .mapToObj(p -> physical.get(p).get(matrix))
                    .toList()));
      }
      assertClose(
          "gradient of matrix " + m,
          joined(ofExperts),
          joined(host.gradOfExperts.stream().map(expert -> expert.get(matrix)).toList()));
      if (shape.sharedIntermediate() > 0) {
        assertClose(
            "gradient of shared matrix " + m,
            sum(gpus.stream().map(rank -> rank.gradOfShared.get(matrix)).toList()),
            host.gradOfShared.get(matrix));
      }
    }
  }

  @Test
  void badLogitIsNamedBeforeAnythingIsSent() {
    requireGpus(1);
    PlainMoe plain = plain(shape("mixtral"));
    int hidden = plain.shape.hidden();
    var once = ReplicatedPlacement.of(ExpertPlacement.blocks(8, 1));
    float[] good = values(24, 4 * hidden);
    float[] bad = good.clone();
    bad[2 * hidden + 5] = Float.POSITIVE_INFINITY;
    ThreadRanks.run(
        1,
        group -> {
          try (ExpertBuffer buffer =
                  ExpertBuffer.open(group, config(EngineName.CUDA, plain.shape, once, 4));
              MoeLayer layer = new MoeLayer(buffer, plain.shape, once, plain.weights(once, 0));
              Uploads uploads = new Uploads(buffer.deviceOrdinal().orElseThrow())) {
            Tensor x = uploads.of(good, DType.BF16, hidden);
            float[] before = layer.forward(x).toFloatArray();
            Tensor infinite = uploads.of(bad, DType.BF16, hidden);
            assertThatThrownBy(() -> layer.forward(infinite))
                .isInstanceOf(InvalidArgumentException.class)
                .hasMessageContaining(ErrorCode.MOE_SCORES.id())
                .hasMessageContaining("logit of token 2 for expert 0");
            assertThat(layer.forward(x).toFloatArray()).isEqualTo(before);
          }
        });
  }

  /** Rank 0 has all tokens: gradients of router and shared expert are complete there. */
  @ParameterizedTest
  @ValueSource(strings = {"mixtral", "qwen3_moe", "deepseek_v3"})
  void resultsAndGradientsAreThoseOfTransformers(String model) {
    assumeTrue(System.getProperty(REFERENCE) != null, "-D" + REFERENCE + " names no directory");
    requireGpus(1);
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
                        group, config(EngineName.CUDA, shape, placement, x.length / hidden));
                MoeLayer layer =
                    new MoeLayer(
                        buffer, shape, placement, checkpoint.weights(1, placement, group.rank()));
                Uploads uploads = new Uploads(buffer.deviceOrdinal().orElseThrow())) {
              buffer.barrier();
              ForwardPass pass =
                  layer.forwardForTraining(
                      uploads.of(Arrays.copyOf(x, length), DType.BF16, hidden));
              float[] y = pass.y().toFloatArray();
              MoeGradients gradients =
                  layer.backward(pass, uploads.of(Arrays.copyOf(grad, length), DType.BF16, hidden));
              if (group.rank() == 0) {
                assertClose("y", y, outputs.tensor("y").toFloatArray());
                compare(model, gradients, outputs, placement);
              }
              group.barrier(buffer.config().timeout());
            }
          }
        });
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
    assertClose("gradient of x", gradients.x().toFloatArray(), outputs.tensor("x").toFloatArray());
    assertClose(
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
      assertClose("gradient of " + names.get(m), joined(actual), joined(expected));
      if (gradients.shared().isPresent()) {
        assertClose(
            "gradient of shared " + names.get(m),
            matrices(gradients.shared().get()).get(m),
            outputs.tensor(prefix + "shared_experts." + names.get(m) + ".weight").toFloatArray());
      }
    }
  }
}
