package org.ep4j.moe;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import java.nio.FloatBuffer;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Optional;
import java.util.Random;
import java.util.stream.Stream;
import org.assertj.core.api.ThrowableAssert.ThrowingCallable;
import org.assertj.core.data.Offset;
import org.ep4j.ExpertBuffer;
import org.ep4j.config.BufferConfig;
import org.ep4j.config.HighThroughputConfig;
import org.ep4j.config.Layout;
import org.ep4j.error.ErrorCode;
import org.ep4j.error.IllegalUseException;
import org.ep4j.error.InvalidArgumentException;
import org.ep4j.group.Group;
import org.ep4j.group.ThreadRanks;
import org.ep4j.routing.ExpertPlacement;
import org.ep4j.routing.ReplicatedPlacement;
import org.ep4j.tensor.DType;
import org.ep4j.tensor.Tensor;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.MethodSource;

/** Ranks as threads, against plain arithmetic. */
class MoeLayerTest {
  private static final int HIDDEN = 24;
  private static final int TOKENS = 37;

  /** As in Mixtral, Qwen3-MoE and DeepSeek-V3. */
  static Stream<MoeShape> shapes() {
    return Stream.of(
        new MoeShape(HIDDEN, 20, 0, RouterConfig.softmax(8, 2)),
        new MoeShape(
            HIDDEN, 17, 0, new RouterConfig(12, 3, RouterConfig.Scores.SOFTMAX, false, 1, 4, 2)),
        new MoeShape(HIDDEN, 16, 32, RouterConfig.sigmoid(12, 4, 4, 2, 2.5f)));
  }

  private record OfRank(float[] y, MoeGradients gradients) {}

  /** Results of all ranks. */
  private record World(List<OfRank> ofRanks) {
    float[] y() {
      return joined(ofRanks.stream().map(OfRank::y).toList());
    }

    float[] gradOfX() {
      return joined(ofRanks.stream().map(rank -> rank.gradients().x().toFloatArray()).toList());
    }

    /** In the order of experts, the same for any number of ranks. */
    float[] gradOfExperts() {
      List<float[]> all = new ArrayList<>();
      for (OfRank rank : ofRanks) {
        for (ExpertWeights expert : rank.gradients().experts()) {
          all.add(expert.w1().toFloatArray());
          all.add(expert.w3().toFloatArray());
          all.add(expert.w2().toFloatArray());
        }
      }
      return joined(all);
    }

    private static float[] joined(List<float[]> parts) {
      int length = parts.stream().mapToInt(part -> part.length).sum();
      FloatBuffer all = FloatBuffer.allocate(length);
      parts.forEach(all::put);
      return all.array();
    }
  }

  @ParameterizedTest
  @MethodSource("shapes")
  void resultsAreThoseOfPlainArithmeticWithTheSameBitsOnAnyNumberOfRanks(MoeShape shape) {
    var plain = new PlainMoe(shape, 1);
    float[] x = PlainMoe.values(new Random(2), TOKENS * HIDDEN, 3);
    float[] grad = PlainMoe.values(new Random(3), TOKENS * HIDDEN, 3);
    World first = run(plain, x, grad, 1);
    assertPlain(plain, x, first.y());
    assertGradients(plain, x, grad, first);
    for (int ranks = 2; ranks <= 4; ranks++) {
      World world = run(plain, x, grad, ranks);
      assertThat(world.y()).containsExactly(first.y());
      assertThat(world.gradOfX()).containsExactly(first.gradOfX());
      assertThat(world.gradOfExperts()).containsExactly(first.gradOfExperts());
    }
  }

  /** Ranks share the tokens in order; the last of three has none. */
  private static World run(PlainMoe plain, float[] x, float[] grad, int ranks) {
    int shares = ranks == 3 ? 2 : ranks;
    List<OfRank> results =
        ThreadRanks.call(
            ranks,
            group -> {
              int from = Math.min(shares, group.rank()) * TOKENS / shares * HIDDEN;
              int to = Math.min(shares, group.rank() + 1) * TOKENS / shares * HIDDEN;
              try (ExpertBuffer buffer = open(group, plain.shape)) {
                MoeLayer layer = layer(buffer, plain, group);
                ForwardPass pass = layer.forwardForTraining(part(x, from, to));
                float[] y = pass.y().toFloatArray();
                assertThat(layer.forward(part(x, from, to)).toFloatArray()).containsExactly(y);
                return new OfRank(y, layer.backward(pass, part(grad, from, to)));
              }
            });
    return new World(results);
  }

  private static ExpertBuffer open(Group group, MoeShape shape) {
    return ExpertBuffer.open(group, MoeLayer.bufferConfig(shape, group.size(), TOKENS).build());
  }

  private static MoeLayer layer(ExpertBuffer buffer, PlainMoe plain, Group group) {
    var placement = ExpertPlacement.blocks(plain.shape.router().experts(), group.size());
    return new MoeLayer(buffer, plain.shape, plain.weights(placement, group.rank()));
  }

  private static Tensor part(float[] values, int from, int to) {
    return Tensor.of(Arrays.copyOfRange(values, from, to), (to - from) / HIDDEN, HIDDEN);
  }

  private static void assertPlain(PlainMoe plain, float[] x, float[] y) {
    for (int token = 0; token < TOKENS; token++) {
      double[] expected = plain.forward(token(x, token));
      double largest = Arrays.stream(expected).map(Math::abs).max().orElseThrow();
      for (int h = 0; h < HIDDEN; h++) {
        assertThat((double) y[token * HIDDEN + h])
            .isCloseTo(expected[h], Offset.offset(2e-6 * largest));
      }
    }
  }

  /** Derivatives of {@code sum(y * grad)} against differences of plain results. */
  private static void assertGradients(PlainMoe plain, float[] x, float[] grad, World world) {
    var random = new Random(4);
    Losses losses = new Losses(plain, x, grad);
    MoeGradients gradients = world.ofRanks().getFirst().gradients();
    losses.check(random, x, gradients.x());
    losses.check(random, plain.router, gradients.router());
    for (int e = 0; e < plain.experts.size(); e++) {
      losses.check(random, plain.experts.get(e), gradients.experts().get(e));
    }
    gradients.shared().ifPresent(shared -> losses.check(random, plain.shared, shared));
  }

  /** The loss as a function of parameters, which tests change for a moment. */
  private record Losses(PlainMoe plain, float[] x, float[] grad) {
    private double loss() {
      double loss = 0;
      for (int token = 0; token < TOKENS; token++) {
        double[] y = plain.forward(token(x, token));
        for (int h = 0; h < HIDDEN; h++) {
          loss += y[h] * grad[token * HIDDEN + h];
        }
      }
      return loss;
    }

    void check(Random random, float[][] matrices, ExpertWeights gradients) {
      check(random, matrices[0], gradients.w1());
      check(random, matrices[1], gradients.w3());
      check(random, matrices[2], gradients.w2());
    }

    void check(Random random, float[] parameters, Tensor gradient) {
      float[] values = gradient.toFloatArray();
      assertThat(values).hasSameSizeAs(parameters);
      for (int i = 0; i < 6; i++) {
        int at = random.nextInt(parameters.length);
        float kept = parameters[at];
        float step = 1 / 4096f;
        parameters[at] = kept + step;
        double above = loss();
        double width = parameters[at];
        parameters[at] = kept - step;
        width -= parameters[at];
        double slope = (above - loss()) / width;
        parameters[at] = kept;
        assertThat((double) values[at])
            .isCloseTo(slope, Offset.offset(1e-4 * (1 + Math.abs(slope))));
      }
    }
  }

  private static float[] token(float[] x, int token) {
    return Arrays.copyOfRange(x, token * HIDDEN, (token + 1) * HIDDEN);
  }

  @Test
  void rowsMayTravelInBf16() {
    var shape = new MoeShape(HIDDEN, 16, 32, RouterConfig.softmax(8, 2));
    var plain = new PlainMoe(shape, 5);
    float[] x = PlainMoe.values(new Random(6), TOKENS * HIDDEN, 3);
    List<float[]> results =
        ThreadRanks.call(
            2,
            group -> {
              BufferConfig config =
                  MoeLayer.bufferConfig(shape, 2, TOKENS)
                      .highThroughput(
                          HighThroughputConfig.builder()
                              .maxTokens(TOKENS)
                              .layouts(Layout.EXPERT_MAJOR)
                              .build())
                      .build();
              assertThat(config.highThroughput().orElseThrow().rowDType()).isEqualTo(DType.BF16);
              try (ExpertBuffer buffer = ExpertBuffer.open(group, config)) {
                return layer(buffer, plain, group).forward(part(x, 0, x.length)).toFloatArray();
              }
            });
    assertThat(results.get(1)).containsExactly(results.get(0));
    for (int token = 0; token < TOKENS; token++) {
      double[] expected = plain.forward(token(x, token));
      double largest = Arrays.stream(expected).map(Math::abs).max().orElseThrow();
      for (int h = 0; h < HIDDEN; h++) {
        assertThat((double) results.get(0)[token * HIDDEN + h])
            .isCloseTo(expected[h], Offset.offset(largest / 32));
      }
    }
  }

  /** Every expert once, and half of them, drawn, a second time; on shuffled ranks. */
  private static ReplicatedPlacement doubled(Random random, int experts, int ranks) {
    int[] logicalOf = new int[experts + experts / 2];
    int[] rankOf = new int[logicalOf.length];
    for (int physical = 0; physical < logicalOf.length; physical++) {
      logicalOf[physical] = physical < experts ? physical : random.nextInt(experts);
      rankOf[physical] = physical % ranks;
    }
    for (int i = rankOf.length - 1; i > 0; i--) {
      int j = random.nextInt(i + 1);
      int rank = rankOf[i];
      rankOf[i] = rankOf[j];
      rankOf[j] = rank;
    }
    return ReplicatedPlacement.of(ExpertPlacement.table(rankOf, ranks), logicalOf, experts);
  }

  /** Gradients of the replicas of an expert add up to those of the expert. */
  @ParameterizedTest
  @MethodSource("shapes")
  void replicasChangeNoBitOfAResult(MoeShape shape) {
    var plain = new PlainMoe(shape, 12);
    float[] x = PlainMoe.values(new Random(13), TOKENS * HIDDEN, 3);
    float[] grad = PlainMoe.values(new Random(14), TOKENS * HIDDEN, 3);
    World once = run(plain, x, grad, 1);
    for (int ranks = 1; ranks <= 3; ranks++) {
      int experts = shape.router().experts();
      ReplicatedPlacement placement = doubled(new Random(ranks), experts, ranks);
      List<MoeGradients> gradients =
          ThreadRanks.call(
              ranks,
              group -> {
                int tokens = group.rank() == 0 ? TOKENS : 0;
                BufferConfig config = MoeLayer.bufferConfig(shape, placement, TOKENS).build();
                try (ExpertBuffer buffer = ExpertBuffer.open(group, config)) {
                  MoeWeights weights = plain.weights(placement, group.rank());
                  var layer = new MoeLayer(buffer, shape, placement, weights);
                  ForwardPass pass = layer.forwardForTraining(part(x, 0, tokens * HIDDEN));
                  if (group.rank() == 0) {
                    assertThat(pass.y().toFloatArray()).containsExactly(once.y());
                  }
                  return layer.backward(pass, part(grad, 0, tokens * HIDDEN));
                }
              });
      assertThat(gradients.getFirst().x().toFloatArray()).containsExactly(once.gradOfX());
      List<ExpertWeights> expected = once.ofRanks().getFirst().gradients().experts();
      for (int expert = 0; expert < experts; expert++) {
        float[] wanted = expected.get(expert).w1().toFloatArray();
        float[] sum = new float[wanted.length];
        for (int n = 0; n < placement.replicas(expert); n++) {
          int physical = placement.replica(expert, n);
          int rank = placement.placement().rankOf(physical);
          int local = placement.placement().localOf(physical);
          float[] part = gradients.get(rank).experts().get(local).w1().toFloatArray();
          for (int i = 0; i < sum.length; i++) {
            sum[i] += part[i];
          }
        }
        assertThat(sum).containsExactly(wanted, Offset.offset(1e-4f));
      }
    }
  }

  /** Also with replicas; a rank without tokens takes part. */
  @Test
  void decodingHasTheBitsOfAForwardPassWithRowsOfBf16() {
    int hidden = 128;
    int tokens = 5;
    var shape = new MoeShape(hidden, 24, 0, RouterConfig.softmax(8, 3));
    var plain = new PlainMoe(shape, 15);
    float[] x = PlainMoe.values(new Random(16), tokens * hidden, 3);
    for (int ranks = 1; ranks <= 3; ranks++) {
      ReplicatedPlacement placement = doubled(new Random(ranks), 8, ranks);
      ThreadRanks.run(
          ranks,
          group -> {
            Tensor own =
                Tensor.of(
                    group.rank() == 0 ? x : new float[0], group.rank() == 0 ? tokens : 0, hidden);
            try (ExpertBuffer buffer = ExpertBuffer.open(group, decoding(shape, placement))) {
              MoeWeights weights = plain.weights(placement, group.rank());
              var layer = new MoeLayer(buffer, shape, placement, weights);
              for (int step = 0; step < 3; step++) {
                float[] y = layer.decode(own).toFloatArray();
                assertThat(y).containsExactly(layer.forward(own).toFloatArray());
                assertThat(y.length == 0 || y[0] != 0).isTrue();
              }
              assertThat(layer.times().route()).isPositive();
              assertThatStepsDecode(layer, own);
            }
          });
    }
  }

  private static void assertThatStepsDecode(MoeLayer layer, Tensor x) {
    int rows = (int) x.size(0);
    int hidden = (int) x.size(1);
    Tensor y = Tensor.of(new float[rows * hidden], rows, hidden);
    float[] decoded = layer.decode(x).toFloatArray();
    try (DecodeStep step = layer.captureDecode(x, y)) {
      assertThat(y.toFloatArray()).containsExactly(decoded);
      y.copyFrom(new float[rows * hidden]);
      step.replay();
      assertThat(y.toFloatArray()).containsExactly(decoded);
    }
    Tensor other = Tensor.of(new float[(rows + 1) * hidden], rows + 1, hidden);
    assertThatThrownBy(() -> layer.captureDecode(x, other))
        .isInstanceOf(InvalidArgumentException.class)
        .hasMessageContaining("y");
  }

  private static BufferConfig decoding(MoeShape shape, ReplicatedPlacement placement) {
    return MoeLayer.bufferConfig(shape, placement, 8)
        .highThroughput(
            HighThroughputConfig.builder()
                .maxTokens(8)
                .rowDType(DType.BF16)
                .layouts(Layout.EXPERT_MAJOR)
                .build())
        .lowLatency(8)
        .build();
  }

  @Test
  void decodingAddsTheSharedExpert() {
    var shape = new MoeShape(128, 16, 32, RouterConfig.sigmoid(12, 4, 4, 2, 2.5f));
    var plain = new PlainMoe(shape, 17);
    float[] x = PlainMoe.values(new Random(18), 2 * 128, 3);
    var placement = ReplicatedPlacement.of(ExpertPlacement.blocks(12, 2));
    List<float[]> results =
        ThreadRanks.call(
            2,
            group -> {
              try (ExpertBuffer buffer = ExpertBuffer.open(group, decoding(shape, placement))) {
                return new MoeLayer(buffer, shape, plain.weights(placement, group.rank()))
                    .decode(Tensor.of(x, 2, 128))
                    .toFloatArray();
              }
            });
    assertThat(results.get(1)).containsExactly(results.get(0));
    for (int token = 0; token < 2; token++) {
      double[] expected = plain.forward(Arrays.copyOfRange(x, token * 128, token * 128 + 128));
      double largest = Arrays.stream(expected).map(Math::abs).max().orElseThrow();
      for (int h = 0; h < 128; h++) {
        assertThat((double) results.get(0)[token * 128 + h])
            .isCloseTo(expected[h], Offset.offset(largest / 32));
      }
    }
  }

  @Test
  void decodingNeedsLowLatency() {
    var shape = new MoeShape(HIDDEN, 16, 0, RouterConfig.softmax(8, 2));
    var plain = new PlainMoe(shape, 19);
    ThreadRanks.run(
        1,
        group -> {
          try (ExpertBuffer buffer = open(group, shape)) {
            MoeLayer layer = layer(buffer, plain, group);
            Tensor x = Tensor.of(new float[HIDDEN], 1, HIDDEN);
            Tensor y = Tensor.of(new float[HIDDEN], 1, HIDDEN);
            for (ThrowingCallable call :
                List.<ThrowingCallable>of(() -> layer.decode(x), () -> layer.captureDecode(x, y))) {
              assertThatThrownBy(call)
                  .isInstanceOf(IllegalStateException.class)
                  .hasMessageContaining("EP4J-");
            }
          }
        });
  }

  @Test
  void whatDoesNotFitTogetherIsRefused() {
    var shape = new MoeShape(HIDDEN, 16, 0, RouterConfig.softmax(8, 2));
    var plain = new PlainMoe(shape, 7);
    ThreadRanks.run(
        1,
        group -> {
          ExpertPlacement placement = ExpertPlacement.blocks(8, 1);
          MoeWeights weights = plain.weights(placement, 0);
          try (ExpertBuffer buffer = open(group, shape)) {
            refused(
                () -> new MoeLayer(buffer, other(HIDDEN + 8, 16, 0, 8, 2), weights),
                "buffer.hidden");
            refused(() -> new MoeLayer(buffer, other(HIDDEN, 16, 0, 8, 3), weights), "buffer.topK");
            refused(
                () -> new MoeLayer(buffer, other(HIDDEN, 16, 0, 9, 2), weights),
                "placement.experts");
            var moved = ReplicatedPlacement.of(ExpertPlacement.table(new int[9], 1));
            refused(() -> new MoeLayer(buffer, shape, moved, weights), "placement.experts");
            var doubled = doubled(new Random(1), 8, 1);
            refused(() -> new MoeLayer(buffer, shape, doubled, weights), "buffer.placement");
            refused(
                () -> new MoeLayer(buffer, other(HIDDEN, 17, 0, 8, 2), weights), "experts[0].w1");
            refused(
                () -> new MoeLayer(buffer, other(HIDDEN, 16, 5, 8, 2), weights), "weights.shared");
            var fewer = weights.experts().subList(1, 8);
            refused(
                () -> new MoeLayer(buffer, shape, with(weights, weights.bias(), fewer)),
                "weights.experts");
            refused(
                () ->
                    new MoeLayer(
                        buffer,
                        shape,
                        with(weights, Optional.of(Tensor.of(new float[8], 8)), weights.experts())),
                "bias");
            var layer = new MoeLayer(buffer, shape, weights);
            refused(() -> layer.forward(Tensor.of(new float[25], 1, 25)), "x");
            refused(() -> layer.forward(Tensor.of(new int[HIDDEN], 1, HIDDEN)), "x");
          }
          try (ExpertBuffer flat =
              ExpertBuffer.open(
                  group, MoeLayer.bufferConfig(shape, 1, 4).highThroughput(4).build())) {
            refused(() -> new MoeLayer(flat, shape, weights), "buffer.highThroughput.layouts");
          }
        });
  }

  @Test
  void weightsOfFp8AreElementsTimesFactors() {
    var shape = new MoeShape(160, 136, 40, RouterConfig.softmax(4, 2));
    var placement = ReplicatedPlacement.of(ExpertPlacement.blocks(4, 1));
    MoeWeights weights = new RandomLayer(shape, 20).inFp8().weights(placement, 0);
    Tensor x = Tensor.of(PlainMoe.values(new Random(21), 3 * 160, 3), 3, 160);
    ExpertWeights first = weights.experts().getFirst();
    ExpertWeights.Factors factors = first.factors().orElseThrow();
    ThreadRanks.run(
        1,
        group -> {
          try (ExpertBuffer buffer =
              ExpertBuffer.open(group, MoeLayer.bufferConfig(shape, 1, 3).build())) {
            float[] y = new MoeLayer(buffer, shape, weights).forward(x).toFloatArray();
            float[] plain =
                new MoeLayer(buffer, shape, weights.dequantised()).forward(x).toFloatArray();
            assertThat(y).isEqualTo(plain);
            assertThat(y[0]).isNotZero();
            var fewer =
                new ExpertWeights.Factors(
                    factors.w1(), factors.w3(), Tensor.of(new float[1], 1, 1));
            refused(
                () -> new MoeLayer(buffer, shape, with(weights, first, fewer)),
                "experts[0].w2 factors");
            ExpertWeights wide = first.dequantised();
            refused(
                () -> new MoeLayer(buffer, shape, with(weights, wide, factors)), "experts[0].w1");
            var without = new ExpertWeights(first.w1(), first.w3(), first.w2());
            List<ExpertWeights> experts = new ArrayList<>(weights.experts());
            experts.set(0, without);
            refused(
                () -> new MoeLayer(buffer, shape, with(weights, weights.bias(), experts)),
                "experts[0].w1");
          }
        });
  }

  /** Weights whose first expert has other factors. */
  private static MoeWeights with(
      MoeWeights weights, ExpertWeights first, ExpertWeights.Factors factors) {
    List<ExpertWeights> experts = new ArrayList<>(weights.experts());
    experts.set(0, new ExpertWeights(first.w1(), first.w3(), first.w2(), Optional.of(factors)));
    return with(weights, weights.bias(), experts);
  }

  private static MoeShape other(int hidden, int intermediate, int shared, int experts, int topK) {
    return new MoeShape(hidden, intermediate, shared, RouterConfig.softmax(experts, topK));
  }

  private static MoeWeights with(
      MoeWeights weights, Optional<Tensor> bias, List<ExpertWeights> experts) {
    return new MoeWeights(weights.router(), bias, experts, weights.shared());
  }

  @ParameterizedTest
  @MethodSource("shapes")
  void aTokenWithoutOrderOfItsScoresIsNamed(MoeShape shape) {
    var plain = new PlainMoe(shape, 8);
    ThreadRanks.run(
        1,
        group -> {
          try (ExpertBuffer buffer = open(group, shape)) {
            MoeLayer layer = layer(buffer, plain, group);
            for (float bad : new float[] {Float.NaN, Float.POSITIVE_INFINITY}) {
              float[] x = PlainMoe.values(new Random(9), 2 * HIDDEN, 3);
              x[HIDDEN + 5] = bad;
              assertThatThrownBy(() -> layer.forward(Tensor.of(x, 2, HIDDEN)))
                  .isInstanceOf(InvalidArgumentException.class)
                  .hasMessageContainingAll("EP4J-1065", "logit of token 1 for expert");
            }
          }
        });
  }

  /** A second close() does nothing to later passes, although one of them has the same handle. */
  @Test
  void aForwardPassHasOneBackwardPass() {
    var shape = new MoeShape(HIDDEN, 16, 0, RouterConfig.softmax(8, 2));
    var plain = new PlainMoe(shape, 10);
    Tensor x = Tensor.of(PlainMoe.values(new Random(11), HIDDEN, 3), 1, HIDDEN);
    ThreadRanks.run(
        1,
        group -> {
          try (ExpertBuffer buffer = open(group, shape)) {
            MoeLayer layer = layer(buffer, plain, group);
            ForwardPass pass = layer.forwardForTraining(x);
            float[] gradOfX = layer.backward(pass, x).x().toFloatArray();
            for (int i = 0; i < 8; i++) {
              ForwardPass next = layer.forwardForTraining(x);
              pass.close();
              assertThatThrownBy(() -> layer.backward(pass, x))
                  .isInstanceOf(IllegalUseException.class)
                  .hasMessageContaining("closed");
              assertThat(layer.backward(next, x).x().toFloatArray()).containsExactly(gradOfX);
            }
          }
        });
  }

  @Test
  void aForwardPassBelongsToItsLayer() {
    var shape = new MoeShape(HIDDEN, 16, 0, RouterConfig.softmax(8, 2));
    Tensor x = Tensor.of(PlainMoe.values(new Random(22), HIDDEN, 3), 1, HIDDEN);
    ThreadRanks.run(
        1,
        group -> {
          try (ExpertBuffer buffer = open(group, shape)) {
            MoeLayer layer = layer(buffer, new PlainMoe(shape, 23), group);
            MoeLayer other = layer(buffer, new PlainMoe(shape, 24), group);
            ForwardPass pass = layer.forwardForTraining(x);
            refused(() -> other.backward(pass, x), "pass");
            assertThat(layer.backward(pass, x).x().toFloatArray()).isNotEqualTo(new float[HIDDEN]);
          }
        });
  }

  @Test
  void routersThatCannotChooseAreRefused() {
    refused(() -> RouterConfig.softmax(0, 1), "experts");
    refused(() -> RouterConfig.softmax(8, 9), "topK");
    refused(() -> RouterConfig.sigmoid(12, 2, 5, 1, 1), "groups");
    refused(() -> RouterConfig.sigmoid(12, 4, 4, 1, 1), "topK");
    refused(() -> RouterConfig.sigmoid(4, 1, 4, 1, 1), "groups");
    refused(() -> RouterConfig.sigmoid(12, 2, 4, 5, 1), "topGroups");
    refused(() -> RouterConfig.sigmoid(12, 2, 4, 2, Float.NaN), "scale");
    refused(() -> new MoeShape(0, 4, 0, RouterConfig.softmax(8, 2)), "hidden");
  }

  private static void refused(ThrowingCallable call, String argument) {
    assertThatThrownBy(call)
        .isInstanceOfSatisfying(
            InvalidArgumentException.class,
            e -> {
              assertThat(e.errorCode()).isEqualTo(ErrorCode.MOE_SHAPE);
              assertThat(e.argument()).isEqualTo(argument);
            });
  }
}
