package org.ep4j.moe;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Random;
import java.util.function.BiFunction;
import org.assertj.core.api.ThrowableAssert.ThrowingCallable;
import org.ep4j.ExpertBuffer;
import org.ep4j.config.BufferConfig;
import org.ep4j.config.EngineName;
import org.ep4j.error.ErrorCode;
import org.ep4j.error.IllegalUseException;
import org.ep4j.error.InvalidArgumentException;
import org.ep4j.group.ThreadRanks;
import org.ep4j.routing.ExpertPlacement;
import org.ep4j.routing.ReplicatedPlacement;
import org.ep4j.tensor.DType;
import org.ep4j.tensor.Tensor;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.EnumSource;

/**
 * Layers of the host whose tokens travel in FP8, bit for bit against layers whose tokens do not.
 * Ranks are threads.
 */
class Fp8TokensTest {
  private static final int BLOCK = Fp8Values.BLOCK;
  private static final int HIDDEN = 3 * BLOCK;
  private static final int TOKENS = 19;
  private static final MoeShape SHAPE =
      new MoeShape(HIDDEN, 24, 0, RouterConfig.sigmoid(12, 4, 4, 2, 2.5f));

  /** Tokens in FP8, and the rows of layers that must have the same results without them. */
  enum Rows {
    /** Of the buffer too; results travel in BF16. */
    FP8(DType.FP8_E4M3, DType.BF16),
    /** In a buffer for FP32, which can train. */
    IN_FP32(DType.FP32, DType.FP32),
    IN_BF16(DType.BF16, DType.BF16);

    /** Of the buffer. */
    final DType widest;

    /** Of the buffer without FP8. */
    final DType plain;

    Rows(DType widest, DType plain) {
      this.widest = widest;
      this.plain = plain;
    }

    boolean trains() {
      return this != FP8;
    }
  }

  /** What a layer computes on all ranks; no gradients where it does not train. */
  private record Results(
      float[] forward,
      float[] decoded,
      float[] gradOfX,
      float[] gradOfExperts,
      List<float[]> gradOfRouter) {}

  private static BufferConfig config(MoeShape shape, DType rows, int ranks) {
    ExpertPlacement blocks = ExpertPlacement.blocks(shape.router().experts(), ranks);
    return MoeLayer.bufferConfig(
            EngineName.HOST, shape, ReplicatedPlacement.of(blocks), TOKENS, rows)
        .lowLatency(TOKENS)
        .build();
  }

  private static Results inFp8(PlainMoe plain, float[] x, int ranks, Rows rows) {
    return run(
        plain,
        x,
        ranks,
        rows.widest,
        rows.trains(),
        (buffer, weights) ->
            rows == Rows.FP8
                ? new MoeLayer(buffer, plain.shape, weights)
                : new MoeLayer(
                    buffer,
                    plain.shape,
                    ReplicatedPlacement.of(
                        ExpertPlacement.blocks(plain.shape.router().experts(), ranks)),
                    weights,
                    DType.FP8_E4M3));
  }

  private static Results unquantised(PlainMoe plain, float[] x, Rows rows) {
    return run(
        plain,
        x,
        1,
        rows.plain,
        rows.trains(),
        (buffer, weights) -> new MoeLayer(buffer, plain.shape, weights));
  }

  /** Ranks share the tokens in order; the last of three has none. */
  private static Results run(
      PlainMoe plain,
      float[] x,
      int ranks,
      DType rows,
      boolean trains,
      BiFunction<ExpertBuffer, MoeWeights, MoeLayer> open) {
    int shares = ranks == 3 ? 2 : ranks;
    float[] grad = PlainMoe.values(new Random(5), TOKENS * HIDDEN, 3);
    var placement = ExpertPlacement.blocks(plain.shape.router().experts(), ranks);
    List<Results> all =
        ThreadRanks.call(
            ranks,
            group -> {
              int from = Math.min(shares, group.rank()) * TOKENS / shares;
              int to = Math.min(shares, group.rank() + 1) * TOKENS / shares;
              try (ExpertBuffer buffer =
                      ExpertBuffer.open(group, config(plain.shape, rows, ranks));
                  MoeLayer layer = open.apply(buffer, plain.weights(placement, group.rank()))) {
                Tensor own = part(x, from, to);
                float[] forward = layer.forward(own).toFloatArray();
                float[] decoded = layer.decode(own).toFloatArray();
                assertThat(layer.forward(own).toFloatArray()).isEqualTo(forward);
                if (!trains) {
                  return new Results(forward, decoded, new float[0], new float[0], List.of());
                }
                ForwardPass pass = layer.forwardForTraining(own);
                assertThat(pass.y().toFloatArray()).isEqualTo(forward);
                MoeGradients gradients = layer.backward(pass, part(grad, from, to));
                return new Results(
                    forward,
                    decoded,
                    gradients.x().toFloatArray(),
                    Closeness.joined(
                        gradients.experts().stream()
                            .flatMap(e -> LayerResults.matrices(e, Tensor::toFloatArray).stream())
                            .toList()),
                    List.of(gradients.router().toFloatArray()));
              }
            });
    return new Results(
        Closeness.joined(all.stream().map(Results::forward).toList()),
        Closeness.joined(all.stream().map(Results::decoded).toList()),
        Closeness.joined(all.stream().map(Results::gradOfX).toList()),
        Closeness.joined(all.stream().map(Results::gradOfExperts).toList()),
        all.stream().flatMap(rank -> rank.gradOfRouter.stream()).toList());
  }

  private static Tensor part(float[] values, int from, int to) {
    return Tensor.of(Arrays.copyOfRange(values, from * HIDDEN, to * HIDDEN), to - from, HIDDEN);
  }

  /** Sets the columns of a matrix from or up to the end of the first block to zero. */
  private static void clear(float[] matrix, boolean first) {
    for (int i = 0; i < matrix.length; i++) {
      if (i % HIDDEN < BLOCK == first) {
        matrix[i] = 0;
      }
    }
  }

  /** A router over the first block chooses alike for tokens and for what FP8 makes of them. */
  @ParameterizedTest
  @EnumSource(Rows.class)
  void expertsComputeWithTheRowsOfFp8(Rows rows) {
    var plain = new PlainMoe(SHAPE, 1);
    clear(plain.router, false);
    float[] x = Fp8Values.tokens(TOKENS, HIDDEN);
    float[] received = Fp8Values.received(x);
    for (int i = 0; i < BLOCK; i++) {
      assertThat(received[i]).isEqualTo(x[i]);
    }
    assertThat(received).isNotEqualTo(x);
    Results expected = unquantised(plain, received, rows);
    assertThat(expected.forward).isNotEqualTo(unquantised(plain, x, rows).forward);
    for (int ranks = 1; ranks <= 4; ranks++) {
      Results results = inFp8(plain, x, ranks, rows);
      assertThat(results.forward).isEqualTo(expected.forward);
      assertThat(results.decoded).isEqualTo(expected.decoded);
      assertThat(results.gradOfX).isEqualTo(expected.gradOfX);
      assertThat(results.gradOfExperts).isEqualTo(expected.gradOfExperts);
      if (rows.plain == DType.BF16) {
        assertThat(results.decoded).isEqualTo(results.forward);
      }
    }
  }

  /** Experts over the first block have the same rows with and without FP8. */
  @ParameterizedTest
  @EnumSource(Rows.class)
  void theRouterTakesTokensAsTheyAre(Rows rows) {
    var plain = new PlainMoe(SHAPE, 3);
    for (float[][] expert : plain.experts) {
      clear(expert[0], false);
      clear(expert[1], false);
    }
    float[] x = Fp8Values.tokens(TOKENS, HIDDEN);
    Results expected = unquantised(plain, x, rows);
    Results results = inFp8(plain, x, 2, rows);
    assertThat(results.forward).isEqualTo(expected.forward);
    assertThat(results.decoded).isEqualTo(expected.decoded);
    if (rows.trains()) {
      Results one = inFp8(plain, x, 1, rows);
      assertThat(one.gradOfRouter.getFirst()).isEqualTo(expected.gradOfRouter.getFirst());
    }
    Results ofReceived = unquantised(plain, Fp8Values.received(x), rows);
    assertThat(ofReceived.forward).isNotEqualTo(expected.forward);
  }

  /** Experts without results leave that of the shared expert. */
  @ParameterizedTest
  @EnumSource(Rows.class)
  void theSharedExpertTakesTokensAsTheyAre(Rows rows) {
    var plain = new PlainMoe(new MoeShape(HIDDEN, 8, 16, RouterConfig.softmax(4, 2)), 4);
    for (float[][] expert : plain.experts) {
      Arrays.fill(expert[2], 0);
    }
    float[] x = Fp8Values.tokens(TOKENS, HIDDEN);
    Results expected = unquantised(plain, x, rows);
    Results results = inFp8(plain, x, 2, rows);
    assertThat(results.forward).isEqualTo(expected.forward);
    assertThat(results.decoded).isEqualTo(expected.decoded);
    assertThat(unquantised(plain, Fp8Values.received(x), rows).forward)
        .isNotEqualTo(expected.forward);
  }

  @Test
  void aBufferForFp8RowsAloneDoesNotTrain() {
    var plain = new PlainMoe(SHAPE, 6);
    float[] x = Fp8Values.tokens(TOKENS, HIDDEN);
    List<float[]> results =
        ThreadRanks.call(
            2,
            group -> {
              try (ExpertBuffer buffer =
                  ExpertBuffer.open(group, config(SHAPE, DType.FP8_E4M3, 2))) {
                var placement = ExpertPlacement.blocks(12, 2);
                var layer = new MoeLayer(buffer, SHAPE, plain.weights(placement, group.rank()));
                Tensor own = part(x, 0, TOKENS);
                if (group.rank() == 0) {
                  assertThatThrownBy(() -> layer.forwardForTraining(own))
                      .isInstanceOf(IllegalUseException.class)
                      .hasMessageContaining(ErrorCode.MOE_TRAINING.id())
                      .hasMessageContaining("open it with rowDType(BF16)");
                }
                // Nothing was sent.
                return layer.forward(own).toFloatArray();
              }
            });
    assertThat(results.get(0)).isEqualTo(results.get(1));
  }

  @Test
  void rowsThatDoNotFitAreRefused() {
    var shape = new MoeShape(BLOCK + 64, 16, 0, RouterConfig.softmax(8, 2));
    var plain = new PlainMoe(shape, 7);
    ExpertPlacement once = ExpertPlacement.blocks(8, 1);
    ReplicatedPlacement placement = ReplicatedPlacement.of(once);
    MoeWeights weights = plain.weights(once, 0);
    refused(
        () -> MoeLayer.bufferConfig(EngineName.HOST, shape, placement, 4, DType.FP8_E4M3),
        "hidden",
        "a multiple of 128");
    BufferConfig fp32 = MoeLayer.bufferConfig(shape, 1, 4).build();
    List<DType> others = new ArrayList<>(List.of(DType.BF16, DType.FP16, DType.NVFP4));
    ThreadRanks.run(
        1,
        group -> {
          try (ExpertBuffer buffer = ExpertBuffer.open(group, fp32)) {
            refused(
                () -> new MoeLayer(buffer, shape, placement, weights, DType.FP8_E4M3),
                "hidden",
                "a multiple of 128");
            for (DType other : others) {
              refused(
                  () -> new MoeLayer(buffer, shape, placement, weights, other),
                  "tokens",
                  "FP32 or FP8_E4M3");
            }
          }
          try (ExpertBuffer buffer = ExpertBuffer.open(group, rows(fp32, DType.FP8_E4M3))) {
            refused(() -> new MoeLayer(buffer, shape, weights), "hidden", "a multiple of 128");
            refused(
                () -> new MoeLayer(buffer, shape, placement, weights, DType.BF16),
                "tokens",
                "FP8_E4M3");
          }
          try (ExpertBuffer buffer = ExpertBuffer.open(group, rows(fp32, DType.NVFP4))) {
            refused(() -> new MoeLayer(buffer, shape, weights), "buffer.rowDType", "FP8_E4M3");
          }
        });
  }

  /** Groups of rows in FP8 lie closer to each other than those of their results. */
  @ParameterizedTest
  @EnumSource(names = {"FP32", "BF16"})
  void combiningInPlaceChangesNoBit(DType rows) {
    var plain = new PlainMoe(SHAPE, 8);
    float[] x = Fp8Values.tokens(TOKENS, HIDDEN);
    ThreadRanks.run(
        2,
        group -> {
          ReplicatedPlacement placement = ReplicatedPlacement.of(ExpertPlacement.blocks(12, 2));
          MoeWeights weights = plain.weights(placement, group.rank());
          List<float[]> results = new ArrayList<>();
          for (boolean inPlace : new boolean[] {false, true}) {
            BufferConfig config = inPlace(config(SHAPE, rows, 2), inPlace);
            try (ExpertBuffer buffer = ExpertBuffer.open(group, config)) {
              var layer = new MoeLayer(buffer, SHAPE, placement, weights, DType.FP8_E4M3);
              ForwardPass pass = layer.forwardForTraining(part(x, 0, TOKENS));
              results.add(pass.y().toFloatArray());
              results.add(layer.backward(pass, pass.y()).x().toFloatArray());
            }
          }
          assertThat(results.get(2)).isEqualTo(results.get(0));
          assertThat(results.get(3)).isEqualTo(results.get(1));
        });
  }

  /** With as many ranks as choices there is no other memory for results. */
  @Test
  void resultsThatDoNotFitInPlaceAreRefused() {
    var shape = new MoeShape(BLOCK, 16, 0, RouterConfig.softmax(8, 1));
    MoeWeights weights = new PlainMoe(shape, 9).weights(ExpertPlacement.blocks(8, 1), 0);
    ThreadRanks.run(
        1,
        group -> {
          BufferConfig config = inPlace(config(shape, DType.FP8_E4M3, 1), true);
          try (ExpertBuffer buffer = ExpertBuffer.open(group, config)) {
            refused(() -> new MoeLayer(buffer, shape, weights), "buffer.rowDType", "BF16");
          }
        });
  }

  private static BufferConfig inPlace(BufferConfig config, boolean inPlace) {
    return config.toBuilder()
        .highThroughput(
            config.highThroughput().orElseThrow().toBuilder().combineInPlace(inPlace).build())
        .build();
  }

  private static BufferConfig rows(BufferConfig config, DType rows) {
    return config.toBuilder()
        .highThroughput(config.highThroughput().orElseThrow().toBuilder().rowDType(rows).build())
        .build();
  }

  private static void refused(ThrowingCallable call, String argument, String limit) {
    assertThatThrownBy(call)
        .isInstanceOfSatisfying(
            InvalidArgumentException.class,
            e -> {
              assertThat(e.errorCode()).isEqualTo(ErrorCode.MOE_SHAPE);
              assertThat(e.argument()).isEqualTo(argument);
              assertThat(e).hasMessageContaining(limit);
            });
  }
}
