package org.ep4j.moe;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import java.util.ArrayList;
import java.util.List;
import java.util.function.Function;
import java.util.stream.IntStream;
import java.util.stream.Stream;
import org.ep4j.ExpertBuffer;
import org.ep4j.config.BufferConfig;
import org.ep4j.config.HighThroughputConfig;
import org.ep4j.error.ErrorCode;
import org.ep4j.error.IllegalUseException;
import org.ep4j.error.InvalidArgumentException;
import org.ep4j.group.ThreadRanks;
import org.ep4j.tensor.DType;
import org.ep4j.tensor.Tensor;
import org.junit.jupiter.api.DynamicTest;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.TestFactory;

/**
 * A layer in BF16 against the layer on the host in FP32, with the same weights and one rank.
 * Subclasses name the device.
 */
abstract class MoeLayerKit {
  /** Skips the test where there is no such device. */
  abstract TestDevice.Kind device();

  abstract Stream<LayerCase> cases();

  /** Runs the passes on all ranks; results in the order of ranks. */
  List<LayerResults> run(LayerCase of) {
    TestDevice.Kind kind = device();
    return ThreadRanks.call(of.ranks(), group -> LayerPasses.onDevice(group, of, kind));
  }

  @TestFactory
  Stream<DynamicTest> resultsAndGradientsAreThoseOfTheHost() {
    return cases().map(of -> DynamicTest.dynamicTest(of.toString(), () -> compare(of, run(of))));
  }

  static void compare(LayerCase of, List<LayerResults> ranks) {
    LayerResults host = LayerPasses.onHost(of);
    System.out.println(of + ":");
    Closeness.assertClose(
        "forward", rows(ranks, LayerResults::forward), host.forward(), of.bound());
    Closeness.assertClose("decode", rows(ranks, LayerResults::decoded), host.forward());
    Closeness.assertClose("gradient of x", rows(ranks, LayerResults::gradOfX), host.gradOfX());
    Closeness.assertClose(
        "gradient of router",
        Closeness.sum(ranks.stream().map(LayerResults::gradOfRouter).toList()),
        host.gradOfRouter(),
        boundOfRouter(of.tokens()));
    for (int m = 0; m < LayerResults.MATRICES; m++) {
      int matrix = m;
      Closeness.assertClose(
          "gradient of matrix " + m,
          Closeness.joined(gradients(of, ranks, matrix)),
          Closeness.joined(
              host.gradOfExperts().stream().map(expert -> expert.get(matrix)).toList()));
      if (of.shape().sharedIntermediate() > 0) {
        Closeness.assertClose(
            "gradient of shared matrix " + m,
            Closeness.sum(ranks.stream().map(rank -> rank.gradOfShared().get(matrix)).toList()),
            host.gradOfShared().get(matrix));
      }
    }
  }

  private static float[] rows(List<LayerResults> ranks, Function<LayerResults, float[]> which) {
    return Closeness.joined(ranks.stream().map(which).toList());
  }

  /** Gradients of a matrix of each expert: replicas have those of their own rows. */
  private static List<float[]> gradients(LayerCase of, List<LayerResults> ranks, int matrix) {
    List<List<float[]>> physical =
        ranks.stream().flatMap(rank -> rank.gradOfExperts().stream()).toList();
    int[] logicalOf = of.logicalOf();
    List<float[]> all = new ArrayList<>();
    for (int e = 0; e < of.experts(); e++) {
      int expert = e;
      all.add(
          Closeness.sum(
              IntStream.range(0, logicalOf.length)
                  .filter(p -> logicalOf[p] == expert)
                  .mapToObj(p -> physical.get(p).get(matrix))
                  .toList()));
    }
    return all;
  }

  /**
   * Bound of the gradient of the router: it has differences between the choices of a token, which
   * are similar, and few tokens do not average their errors.
   */
  private static double boundOfRouter(int tokens) {
    return tokens > 1 ? Closeness.BOUND : 3 * Closeness.BOUND;
  }

  /** Bit for bit: a layer whose tokens travel in FP8, and one that gets what is received. */
  @Test
  void expertsComputeWithTheRowsOfFp8() {
    int ranks = 2;
    LayerCase received = new LayerCase("received", ranks, false, 9);
    LayerCase sent = new LayerCase("sent", ranks, false, 9);
    assertThat(sent.x()).isNotEqualTo(received.x());
    List<LayerResults> expected = run(received);
    List<LayerResults> actual = run(sent.inFp8());
    for (int rank = 0; rank < ranks; rank++) {
      LayerResults of = expected.get(rank);
      LayerResults is = actual.get(rank);
      assertThat(is.forward()).isEqualTo(of.forward());
      assertThat(is.decoded()).isEqualTo(of.decoded());
      assertThat(is.gradOfX()).isEqualTo(of.gradOfX());
      for (int e = 0; e < of.gradOfExperts().size(); e++) {
        for (int m = 0; m < LayerResults.MATRICES; m++) {
          assertThat(is.gradOfExperts().get(e).get(m)).isEqualTo(of.gradOfExperts().get(e).get(m));
        }
      }
    }
  }

  /** Results have the bits of a buffer for wider rows. */
  @Test
  void aBufferForFp8RowsDoesNotTrain() {
    LayerCase of = new LayerCase("sent", 1, false, 9).inFp8();
    TestDevice.Kind kind = device();
    BufferConfig wide = kind.config(of, of.tokens()).lowLatency(of.tokens()).build();
    HighThroughputConfig narrow =
        wide.highThroughput().orElseThrow().toBuilder().rowDType(DType.FP8_E4M3).build();
    List<List<float[]>> results = new ArrayList<>();
    for (BufferConfig config : List.of(wide, wide.toBuilder().highThroughput(narrow).build())) {
      ThreadRanks.run(
          1,
          group -> {
            try (ExpertBuffer buffer = ExpertBuffer.open(group, config);
                TestDevice device = kind.open(buffer, of)) {
              MoeLayer layer = device.layer();
              Tensor x = device.upload(of.x(), DType.BF16, of.shape().hidden());
              float[] forward = device.values(layer.forward(x));
              if (config != wide) {
                assertThatThrownBy(() -> layer.forwardForTraining(x))
                    .isInstanceOf(IllegalUseException.class)
                    .hasMessageContaining(ErrorCode.MOE_TRAINING.id());
                assertThat(device.values(layer.forward(x))).isEqualTo(forward);
              }
              results.add(List.of(forward, device.values(layer.decode(x))));
            }
          });
    }
    for (int i = 0; i < 2; i++) {
      assertThat(results.get(1).get(i)).isEqualTo(results.get(0).get(i));
    }
  }

  @Test
  void badLogitIsNamedBeforeAnythingIsSent() {
    LayerCase of = new LayerCase("mixtral", 1, false, 4);
    int hidden = of.shape().hidden();
    float[] bad = of.x();
    bad[2 * hidden + 5] = Float.POSITIVE_INFINITY;
    TestDevice.Kind kind = device();
    ThreadRanks.run(
        1,
        group -> {
          try (ExpertBuffer buffer =
                  ExpertBuffer.open(group, kind.config(of, of.tokens()).build());
              TestDevice device = kind.open(buffer, of)) {
            MoeLayer layer = device.layer();
            Tensor x = device.upload(of.x(), DType.BF16, hidden);
            float[] before = device.values(layer.forward(x));
            Tensor infinite = device.upload(bad, DType.BF16, hidden);
            assertThatThrownBy(() -> layer.forward(infinite))
                .isInstanceOf(InvalidArgumentException.class)
                .hasMessageContaining(ErrorCode.MOE_SCORES.id())
                .hasMessageContaining("logit of token 2 for expert 0")
                .hasMessageContaining("Infinity");
            assertThat(device.values(layer.forward(x))).isEqualTo(before);
            assertThatThrownBy(() -> layer.forward(Tensor.of(of.x(), of.tokens(), hidden)))
                .isInstanceOf(InvalidArgumentException.class)
                .hasMessageContaining(ErrorCode.MOE_SHAPE.id())
                .hasMessageContaining("on device");
          }
        });
  }
}
