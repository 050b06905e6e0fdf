package org.ep4j.moe;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import java.io.IOException;
import java.lang.foreign.Arena;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Objects;
import java.util.stream.IntStream;
import org.ep4j.ExpertBuffer;
import org.ep4j.config.BufferConfig;
import org.ep4j.config.EngineName;
import org.ep4j.config.HighThroughputConfig;
import org.ep4j.config.LowLatencyConfig;
import org.ep4j.cuda.emulator.EmulatedLibrary;
import org.ep4j.error.ErrorCode;
import org.ep4j.error.InvalidArgumentException;
import org.ep4j.group.Group;
import org.ep4j.group.ThreadRanks;
import org.ep4j.moe.gpu.MoeSources;
import org.ep4j.routing.ExpertPlacement;
import org.ep4j.routing.ReplicatedPlacement;
import org.ep4j.tensor.DType;
import org.ep4j.tensor.Tensor;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

/**
 * A layer as on GPUs, without a GPU: its kernels in the emulator, its products in {@link
 * HostCublas}, its operations by the host engine behind {@link DeviceTensors}. Results and
 * gradients are compared with the layer on the host in FP32, with the same weights and one rank.
 */
class MoeLayerOnTheHostTest {
  /**
   * Bound of each difference over the largest element of its tensor. The roundings to BF16 on the
   * way are of 2^-9 each: rows, factors, SwiGLU, results, partial sums.
   */
  private static final double BOUND = 0.012;

  private static final int HIDDEN = 128;

  /** Most tokens of a rank. */
  private static final int MAX_TOKENS = 23;

  @TempDir static Path directory;
  private static EmulatedLibrary kernels;

  @BeforeAll
  static void compile() throws IOException, InterruptedException {
    HostCublas.require();
    kernels = EmulatedLibrary.compile(directory, MoeSources.ENTRY, MoeSources.files());
  }

  /** Shapes as in Mixtral, Qwen3-MoE and DeepSeek-V3. */
  private static MoeShape shape(String model) {
    return switch (model) {
      case "mixtral" -> new MoeShape(HIDDEN, 40, 0, RouterConfig.softmax(8, 2));
      case "qwen" ->
          new MoeShape(
              HIDDEN, 24, 0, new RouterConfig(12, 3, RouterConfig.Scores.SOFTMAX, false, 1, 4, 2));
      default -> new MoeShape(HIDDEN, 32, 56, RouterConfig.sigmoid(12, 4, 4, 2, 2.5f));
    };
  }

  /** Results of all ranks, in the order of tokens; gradients of physical experts in their order. */
  private record Results(
      List<float[]> forward,
      List<float[]> training,
      List<float[]> decoded,
      List<float[]> gradOfX,
      List<float[]> gradOfRouter,
      List<List<float[]>> gradOfExperts,
      List<List<float[]>> gradOfShared) {}

  private record OfRank(
      float[] forward,
      float[] training,
      float[] decoded,
      float[] gradOfX,
      float[] gradOfRouter,
      List<List<float[]>> gradOfExperts,
      List<float[]> gradOfShared) {}

  private static BufferConfig config(RandomLayer layer, ReplicatedPlacement placement, DType rows) {
    BufferConfig config =
        MoeLayer.bufferConfig(EngineName.HOST, layer.shape(), placement, MAX_TOKENS).build();
    HighThroughputConfig throughput = config.highThroughput().orElseThrow();
    return config.toBuilder()
        .highThroughput(throughput.toBuilder().rowDType(rows).build())
        .lowLatency(LowLatencyConfig.of(MAX_TOKENS))
        .build();
  }

  /** Runs all passes; ranks share the tokens in order, and the last of three has none. */
  private static Results run(
      RandomLayer layer, ReplicatedPlacement placement, float[] x, float[] grad, boolean device) {
    int ranks = placement.ranks();
    int tokensOfAll = x.length / HIDDEN;
    int shares = ranks == 3 ? 2 : ranks;
    List<OfRank> all =
        ThreadRanks.call(
            ranks,
            group -> {
              int from = Math.min(shares, group.rank()) * tokensOfAll / shares * HIDDEN;
              int to = Math.min(shares, group.rank() + 1) * tokensOfAll / shares * HIDDEN;
              float[] tokens = Arrays.copyOfRange(x, from, to);
              float[] grads = Arrays.copyOfRange(grad, from, to);
              DType rows = device ? DType.BF16 : DType.FP32;
              try (ExpertBuffer buffer = ExpertBuffer.open(group, config(layer, placement, rows))) {
                return device
                    ? onDevice(buffer, layer, placement, tokens, grads)
                    : passes(
                        new MoeLayer(
                            buffer,
                            layer.shape(),
                            placement,
                            layer.weights(placement, group.rank())),
                        Tensor.of(tokens, tokens.length / HIDDEN, HIDDEN),
                        List.of(Tensor.of(grads, grads.length / HIDDEN, HIDDEN)));
              }
            });
    return new Results(
        all.stream().map(OfRank::forward).toList(),
        all.stream().map(OfRank::training).toList(),
        all.stream().map(OfRank::decoded).toList(),
        all.stream().map(OfRank::gradOfX).toList(),
        all.stream().map(OfRank::gradOfRouter).toList(),
        all.stream().flatMap(rank -> rank.gradOfExperts.stream()).toList(),
        all.stream().map(OfRank::gradOfShared).toList());
  }

  private static OfRank onDevice(
      ExpertBuffer buffer,
      RandomLayer layer,
      ReplicatedPlacement placement,
      float[] tokens,
      float[] grads) {
    try (Arena arena = Arena.ofShared();
        MoeLayer gpu = onDevice(buffer, layer, placement)) {
      return passes(
          gpu,
          onDevice(arena, tokens, DType.BF16),
          List.of(onDevice(arena, grads, DType.BF16), onDevice(arena, grads, DType.FP32)));
    }
  }

  private static MoeLayer onDevice(
      ExpertBuffer buffer, RandomLayer layer, ReplicatedPlacement placement) {
    var device = new EmulatedDevice(kernels, buffer.rank() % 2 == 0);
    return new MoeLayer(
        device,
        DeviceTensors.over(buffer, device),
        layer.shape(),
        placement,
        layer.weights(placement, buffer.rank()));
  }

  private static Tensor onDevice(Arena arena, float[] values, DType type) {
    Tensor host = Tensor.allocate(arena, type, values.length / HIDDEN, HIDDEN);
    if (values.length > 0) {
      host.copyFrom(values);
    }
    return Tensor.ofDevice(host.address(), 0, type, host.shape());
  }

  private static float[] values(Tensor tensor) {
    return (tensor.onDevice() ? DeviceTensors.onHost(tensor) : tensor).toFloatArray();
  }

  /** Each pass once or, with several gradients of the same values, with the same bits. */
  private static OfRank passes(MoeLayer layer, Tensor x, List<Tensor> grads) {
    float[] forward = values(layer.forward(x));
    float[] decoded = values(layer.decode(x));
    OfRank result = null;
    for (Tensor grad : grads) {
      ForwardPass pass = layer.forwardForTraining(x);
      float[] training = values(pass.y());
      // Passes in between do not disturb a pass.
      assertThat(values(layer.forward(x))).isEqualTo(forward);
      MoeGradients gradients = layer.backward(pass, grad);
      OfRank next =
          new OfRank(
              forward,
              training,
              decoded,
              values(gradients.x()),
              values(gradients.router()),
              gradients.experts().stream().map(MoeLayerOnTheHostTest::matrices).toList(),
              gradients.shared().map(MoeLayerOnTheHostTest::matrices).orElse(List.of()));
      if (result != null) {
        assertThat(next.gradOfX).isEqualTo(result.gradOfX);
        assertThat(next.gradOfRouter).isEqualTo(result.gradOfRouter);
      }
      result = next;
    }
    LayerTimes times = layer.times();
    assertThat(List.of(times.route(), times.dispatch(), times.experts(), times.combine()))
        .allMatch(nanos -> nanos >= 0);
    return Objects.requireNonNull(result);
  }

  private static List<float[]> matrices(ExpertWeights weights) {
    return List.of(values(weights.w1()), values(weights.w3()), values(weights.w2()));
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
      largest = Math.max(largest, Math.abs(expected[i]));
      difference = Math.max(difference, Math.abs((double) actual[i] - expected[i]));
      assertThat(actual[i]).as(what).isFinite();
    }
    System.out.printf("  %s: %.5f of the largest%n", what, difference / largest);
    assertThat(largest).as(what).isPositive();
    assertThat(difference / largest).as(what).isLessThan(bound);
  }

  @ParameterizedTest
  @CsvSource({
    "mixtral, 1, false, 23",
    "mixtral, 2, true, 23",
    "deepseek, 2, false, 23",
    "qwen, 2, false, 23",
    "deepseek, 1, true, 23",
    "deepseek, 3, false, 23",
    "mixtral, 3, false, 1"
  })
  void resultsAndGradientsAreThoseOfTheHost(String model, int ranks, boolean replicas, int tokens) {
    var layer = new RandomLayer(shape(model), 11);
    int experts = layer.shape().router().experts();
    float[] x = layer.tokens(tokens);
    float[] grad = layer.tokens(tokens);
    var once = ReplicatedPlacement.of(ExpertPlacement.blocks(experts, 1));
    Results host = run(layer, once, x, grad, false);
    int[] logicalOf =
        IntStream.range(0, replicas ? experts + 4 : experts).map(p -> p % experts).toArray();
    ReplicatedPlacement placement =
        ReplicatedPlacement.of(ExpertPlacement.blocks(logicalOf.length, ranks), logicalOf, experts);
    Results device = run(layer, placement, x, grad, true);
    System.out.println(model + " on " + ranks + " ranks:");
    assertThat(joined(device.training)).isEqualTo(joined(device.forward));
    assertClose("forward", joined(device.forward), joined(host.forward));
    assertClose("decode", joined(device.decoded), joined(host.forward));
    assertClose("gradient of x", joined(device.gradOfX), joined(host.gradOfX));
    assertClose(
        "gradient of router",
        sum(device.gradOfRouter),
        sum(host.gradOfRouter),
        boundOfRouter(tokens));
    for (int m = 0; m < 3; m++) {
      int matrix = m;
      List<float[]> ofExperts = new ArrayList<>();
      for (int e = 0; e < experts; e++) {
        int expert = e;
        ofExperts.add(
            sum(
                IntStream.range(0, logicalOf.length)
                    .filter(p -> logicalOf[p] == expert)
                    .mapToObj(p -> device.gradOfExperts.get(p).get(matrix))
                    .toList()));
      }
      assertClose(
          "gradient of matrix " + m,
          joined(ofExperts),
          joined(host.gradOfExperts.stream().map(expert -> expert.get(matrix)).toList()));
      if (layer.shape().sharedIntermediate() > 0) {
        assertClose(
            "gradient of shared matrix " + m,
            sum(device.gradOfShared.stream().map(expert -> expert.get(matrix)).toList()),
            sum(host.gradOfShared.stream().map(expert -> expert.get(matrix)).toList()));
      }
    }
  }

  @Test
  void badLogitIsNamedBeforeAnythingIsSent() {
    var layer = new RandomLayer(shape("mixtral"), 12);
    var once = ReplicatedPlacement.of(ExpertPlacement.blocks(8, 1));
    float[] good = layer.tokens(4);
    float[] bad = good.clone();
    bad[2 * HIDDEN + 5] = Float.POSITIVE_INFINITY;
    ThreadRanks.run(1, group -> badLogitIsNamed(group, layer, once, good, bad));
  }

  private static void badLogitIsNamed(
      Group group, RandomLayer layer, ReplicatedPlacement once, float[] good, float[] bad) {
    try (Arena arena = Arena.ofShared();
        ExpertBuffer buffer = ExpertBuffer.open(group, config(layer, once, DType.BF16));
        MoeLayer gpu = onDevice(buffer, layer, once)) {
      float[] before = values(gpu.forward(onDevice(arena, good, DType.BF16)));
      assertThatThrownBy(() -> gpu.forward(onDevice(arena, bad, DType.BF16)))
          .isInstanceOf(InvalidArgumentException.class)
          .hasMessageContaining(ErrorCode.MOE_SCORES.id())
          .hasMessageContaining("logit of token 2 for expert 0")
          .hasMessageContaining("Infinity");
      assertThat(values(gpu.forward(onDevice(arena, good, DType.BF16)))).isEqualTo(before);
      assertThatThrownBy(() -> gpu.forward(Tensor.of(good, 4, HIDDEN)))
          .isInstanceOf(InvalidArgumentException.class)
          .hasMessageContaining(ErrorCode.MOE_SHAPE.id())
          .hasMessageContaining("on device 0");
    }
  }

  @Test
  void sizesWithoutWholeVectorsAreRefused() {
    var layer = new RandomLayer(new MoeShape(HIDDEN, 20, 0, RouterConfig.softmax(8, 2)), 13);
    var once = ReplicatedPlacement.of(ExpertPlacement.blocks(8, 1));
    ThreadRanks.run(1, group -> sizesAreRefused(group, layer, once));
  }

  private static void sizesAreRefused(Group group, RandomLayer layer, ReplicatedPlacement once) {
    try (ExpertBuffer buffer = ExpertBuffer.open(group, config(layer, once, DType.BF16))) {
      assertThatThrownBy(() -> onDevice(buffer, layer, once))
          .isInstanceOf(InvalidArgumentException.class)
          .hasMessageContaining("intermediate")
          .hasMessageContaining("a multiple of 8 on GPUs");
    }
  }
}
