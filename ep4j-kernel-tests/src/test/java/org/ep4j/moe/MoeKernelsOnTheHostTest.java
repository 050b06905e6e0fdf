package org.ep4j.moe;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.within;

import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Optional;
import org.ep4j.moe.gpu.MoeKernel;
import org.ep4j.routing.ExpertPlacement;
import org.ep4j.routing.ReplicatedPlacement;
import org.ep4j.routing.Routing;
import org.ep4j.tensor.Tensor;
import org.junit.jupiter.api.Test;

/**
 * The kernels of a layer in the emulator, on random cases, have the bits of the layer on the host.
 * {@code -Dep4j.seed} selects other cases.
 */
class MoeKernelsOnTheHostTest extends EmulatedKernelCases {
  /** The product of the host adds to +0, so that it has no -0. */
  private static float[] withoutSignOfZeros(float[] values) {
    for (int i = 0; i < values.length; i++) {
      values[i] += 0f;
    }
    return values;
  }

  // --- router -------------------------------------------------------------------------------

  /** A layer's router whose matrix is the unit matrix: tokens are logits. */
  private record Case(RouterConfig config, Router router, Optional<float[]> bias, int tokens) {}

  private Case drawn(int number) {
    int[] sizes = {1, 2, 6, 8, 16, 60, 64, 128, 256, 384};
    int experts = number == 0 ? 256 : sizes[random.nextInt(sizes.length)];
    boolean sigmoid = number == 0 || random.nextBoolean();
    List<Integer> divisors = new ArrayList<>();
    for (int g = 1; g <= experts; g++) {
      if (experts % g == 0 && (g == 1 || !sigmoid || experts / g >= 2)) {
        divisors.add(g);
      }
    }
    int groups = number == 0 ? 8 : divisors.get(random.nextInt(divisors.size()));
    int topGroups = number == 0 ? 4 : 1 + random.nextInt(groups);
    int max = Math.min(8, topGroups * (experts / groups));
    int topK = number == 0 ? 8 : 1 + random.nextInt(max);
    RouterConfig config =
        new RouterConfig(
            experts,
            topK,
            sigmoid ? RouterConfig.Scores.SIGMOID : RouterConfig.Scores.SOFTMAX,
            random.nextInt(3) > 0,
            random.nextBoolean() ? 1 : 2.5f,
            groups,
            topGroups);
    Optional<float[]> bias = sigmoid ? Optional.of(values(experts, .1f)) : Optional.empty();
    var unit = new float[experts * experts];
    for (int e = 0; e < experts; e++) {
      unit[e * experts + e] = 1;
    }
    var router =
        new Router(
            config,
            Tensor.of(unit, experts, experts),
            bias.map(b -> Tensor.of(b, b.length)),
            experts);
    return new Case(config, router, bias, random.nextInt(4) == 0 ? 0 : random.nextInt(20));
  }

  /** Many equal logits, scores that differ little, or large and small ones. */
  private float[] logits(int count) {
    var logits = values(count, random.nextInt(6) == 0 ? 40 : 1.5f);
    if (random.nextBoolean()) {
      for (int i = 0; i < count; i++) {
        logits[i] = Math.round(2 * logits[i]) / 2f + 0f;
      }
    }
    return logits;
  }

  /** What the kernel of the router has written. */
  private record Routed(MemorySegment scores, MemorySegment ids, MemorySegment weights, long bad) {}

  private Routed route(Case drawn, float[] logits) {
    RouterConfig config = drawn.config;
    int tokens = drawn.tokens;
    MemorySegment scores = memory.allocate((long) tokens * config.experts() * Float.BYTES);
    MemorySegment ids = memory.allocate((long) tokens * config.topK() * Integer.BYTES);
    MemorySegment weights = memory.allocate((long) tokens * config.topK() * Float.BYTES);
    MemorySegment bad = memory.of(0L);
    Object bias = drawn.bias.<Object>map(memory::of).orElse(0);
    run(
        MoeKernel.ROUTE,
        2 * config.experts(),
        memory.of(logits),
        bias,
        tokens,
        config.experts(),
        config.topK(),
        config.groups(),
        config.topGroups(),
        MoeKernel.flags(config.scores() == RouterConfig.Scores.SIGMOID, config.normalized()),
        Float.floatToRawIntBits(config.scale()),
        scores,
        ids,
        weights,
        bad);
    return new Routed(scores, ids, weights, bad.get(ValueLayout.JAVA_LONG, 0));
  }

  @Test
  void routerChoosesAsOnTheHost() {
    for (int number = 0; number < CASES; number++) {
      Case drawn = drawn(number);
      float[] logits = logits(drawn.tokens * drawn.config.experts());
      Router.Choices host =
          drawn.router.choose(Matrix.of(logits, drawn.tokens, drawn.config.experts()));
      Routed routed = route(drawn, logits);
      String about = "case " + number + " of seed " + SEED + ": " + drawn.config;
      assertThat(routed.bad).as(about).isZero();
      assertThat(routed.ids.toArray(ValueLayout.JAVA_INT)).as(about).isEqualTo(host.ids());
      assertThat(floats(routed.scores)).as(about).isEqualTo(host.scores().values());
      assertThat(floats(routed.weights)).as(about).isEqualTo(host.routingWeights());
    }
  }

  @Test
  void firstBadLogitIsFound() {
    float[] bad = {Float.NaN, Float.POSITIVE_INFINITY, Float.NEGATIVE_INFINITY};
    for (int number = 0; number < CASES; number++) {
      Case drawn = drawn(number);
      float[] logits = logits(drawn.tokens * drawn.config.experts());
      int first = logits.length;
      for (int n = random.nextInt(3); n >= 0 && logits.length > 0; n--) {
        int at = random.nextInt(logits.length);
        logits[at] = bad[random.nextInt(bad.length)];
        first = Math.min(first, at);
      }
      Routed routed = route(drawn, logits);
      long expected = logits.length == 0 ? 0 : ~(long) first;
      assertThat(routed.bad).as("case " + number + " of seed " + SEED).isEqualTo(expected);
      assertThatTokensWithBadLogitsChooseNothing(drawn, logits, routed);
    }
  }

  private static void assertThatTokensWithBadLogitsChooseNothing(
      Case drawn, float[] logits, Routed routed) {
    int experts = drawn.config.experts();
    int topK = drawn.config.topK();
    int[] ids = routed.ids.toArray(ValueLayout.JAVA_INT);
    for (int token = 0; token < drawn.tokens; token++) {
      boolean finite = true;
      for (int e = 0; e < experts; e++) {
        finite &= Float.isFinite(logits[token * experts + e]);
      }
      int[] own = Arrays.copyOfRange(ids, token * topK, (token + 1) * topK);
      boolean chosen = finite;
      assertThat(Arrays.stream(own)).allMatch(id -> chosen ? id >= 0 : id == -1);
      if (!finite) {
        assertThat(Arrays.copyOfRange(floats(routed.weights), token * topK, (token + 1) * topK))
            .containsOnly(0f);
      }
    }
  }

  @Test
  void gradientsOfLogitsAreThoseOfTheHost() {
    for (int number = 0; number < CASES; number++) {
      Case drawn = drawn(number);
      RouterConfig config = drawn.config;
      float[] logits = logits(drawn.tokens * config.experts());
      Matrix x = Matrix.of(logits, drawn.tokens, config.experts());
      Router.Choices host = drawn.router.choose(x);
      float[] gradOfWeights = values(drawn.tokens * config.topK(), 1);
      Matrix gradOfLogits = Matrix.zeros(drawn.tokens, config.experts());
      drawn.router.backward(x, host, gradOfWeights, gradOfLogits);
      MemorySegment grad = memory.allocate((long) drawn.tokens * config.experts() * Short.BYTES);
      run(
          MoeKernel.ROUTE_BACKWARD,
          config.experts(),
          memory.of(host.scores().values()),
          memory.of(host.ids()),
          memory.of(gradOfWeights),
          drawn.tokens,
          config.experts(),
          config.topK(),
          MoeKernel.flags(config.scores() == RouterConfig.Scores.SIGMOID, config.normalized()),
          Float.floatToRawIntBits(config.scale()),
          grad);
      assertThat(withoutSignOfZeros(bf16Values(grad)))
          .as("case " + number + " of seed " + SEED + ": " + config)
          .isEqualTo(withoutSignOfZeros(rounded(gradOfLogits.values())));
    }
  }

  @Test
  void replicasAreThoseOfThePlacement() {
    for (int number = 0; number < CASES; number++) {
      int experts = 1 + random.nextInt(40);
      int ranks = 1 + random.nextInt(4);
      int slots = experts + random.nextInt(experts + 1);
      slots += (ranks - slots % ranks) % ranks;
      var logicalOf = new int[slots];
      for (int p = 0; p < slots; p++) {
        logicalOf[p] = p < experts ? p : random.nextInt(experts);
      }
      ReplicatedPlacement placement =
          ReplicatedPlacement.of(ExpertPlacement.blocks(slots, ranks), logicalOf, experts);
      int topK = 1 + random.nextInt(Math.min(experts, 8));
      int tokens = random.nextInt(60);
      var ids = new int[tokens * topK];
      for (int i = 0; i < ids.length; i++) {
        ids[i] = random.nextInt(8) == 0 ? -1 : random.nextInt(experts);
      }
      int rank = random.nextInt(ranks);
      Routing expected =
          placement.physicalRouting(Routing.of(ids, new float[ids.length], topK), rank);
      MoeKernel.ReplicaTable table = MoeKernel.ReplicaTable.of(placement);
      MemorySegment physical = memory.allocate((long) ids.length * Integer.BYTES);
      run(
          MoeKernel.REPLICAS,
          0,
          memory.of(ids),
          ids.length,
          experts,
          rank,
          memory.of(table.first()),
          memory.of(table.replicas()),
          physical);
      assertThat(physical.toArray(ValueLayout.JAVA_INT))
          .as("case " + number + " of seed " + SEED)
          .isEqualTo(expected.topkIdx().toIntArray());
    }
  }

  // --- few rows ------------------------------------------------------------------------------

  @Test
  void fewRowsAreMultipliedByTheWeightsOfTheirExpert() {
    for (int number = 0; number < CASES / 4; number++) {
      var of = new FewRowsCase(random);
      MemorySegment out = bf16(of.before);
      runIn(
          MoeKernel.FEW_ROWS,
          MoeKernel.FEW_ROWS_BYTES,
          bf16(of.x),
          memory.of(of.counts.given()),
          of.places,
          of.experts,
          of.columns,
          of.terms,
          bf16(of.weights),
          out);
      of.check("case " + number + " of seed " + SEED, bf16Values(out));
    }
  }

  @Test
  void swigluOfGroupsHasTheBitsOfSwiglu() {
    for (int number = 0; number < CASES; number++) {
      int groups = 1 + random.nextInt(4);
      int places = 1 + random.nextInt(30);
      int width = MoeKernel.VECTOR * (1 + random.nextInt(40));
      FewRowsCase.Counts counts = FewRowsCase.Counts.of(random, groups, places);
      MemorySegment both = bf16(rounded(values(groups * places * 2 * width, 2)));
      MemorySegment all = memory.allocate((long) groups * places * width * Short.BYTES);
      run(MoeKernel.SWIGLU, 0, both, groups * places, width, all);
      float[] untouched = rounded(values(groups * places * width, 1));
      MemorySegment out = bf16(untouched);
      run(MoeKernel.SWIGLU_GROUPS, 0, both, memory.of(counts.given()), places, groups, width, out);
      float[] expected = bf16Values(all);
      for (int g = 0; g < groups; g++) {
        int end = (g + 1) * places * width;
        int from = g * places * width + counts.rows()[g] * width;
        System.arraycopy(untouched, from, expected, from, end - from);
      }
      assertThat(bf16Values(out)).as("case " + number + " of seed " + SEED).isEqualTo(expected);
    }
  }

  // --- SwiGLU and conversions ---------------------------------------------------------------

  @Test
  void swigluHasTheBitsOfTheHost() {
    for (int number = 0; number < CASES; number++) {
      int rows = random.nextInt(12);
      int width = MoeKernel.VECTOR * (1 + random.nextInt(40));
      float[] swished = rounded(values(rows * width, random.nextInt(4) == 0 ? 60 : 2));
      float[] linear = rounded(values(rows * width, 1));
      var host = new float[rows * width];
      Activation.forward(swished, linear, host);
      MemorySegment out = memory.allocate((long) rows * width * Short.BYTES);
      run(MoeKernel.SWIGLU, 0, bf16(beside(swished, linear, width)), rows, width, out);
      assertThat(bf16Values(out)).as("case " + number).isEqualTo(rounded(host));
    }
  }

  @Test
  void swigluBackwardHasTheBitsOfTheHost() {
    for (int number = 0; number < CASES; number++) {
      int rows = random.nextInt(12);
      int width = MoeKernel.VECTOR * (1 + random.nextInt(80));
      boolean weighted = random.nextBoolean();
      float[] swished = rounded(values(rows * width, 2));
      float[] linear = rounded(values(rows * width, 1));
      float[] grad = rounded(values(rows * width, 1));
      float[] weights = values(rows, 1);
      var inner = new float[rows * width];
      Activation.forward(swished, linear, inner);
      var dots = new double[rows];
      float[] scaled = grad.clone();
      for (int i = 0; i < inner.length; i++) {
        dots[i / width] += (double) inner[i] * grad[i];
        if (weighted) {
          inner[i] *= weights[i / width];
          scaled[i] *= weights[i / width];
        }
      }
      MemorySegment both = bf16(beside(swished, linear, width));
      Activation.backward(swished, linear, scaled);
      MemorySegment gradAndInner = bf16(grad);
      MemorySegment ofWeights = memory.allocate((long) rows * Float.BYTES);
      run(
          MoeKernel.SWIGLU_BACKWARD,
          0,
          both,
          gradAndInner,
          weighted ? memory.of(weights) : 0,
          rows,
          width,
          weighted ? ofWeights : 0);
      assertThat(bf16Values(both)).isEqualTo(rounded(beside(swished, linear, width)));
      assertThat(bf16Values(gradAndInner)).isEqualTo(rounded(inner));
      for (int row = 0; row < rows && weighted; row++) {
        assertThat((double) floats(ofWeights)[row])
            .isCloseTo(dots[row], within(1e-5 * Math.max(width, Math.abs(dots[row]))));
      }
    }
  }

  /** Rows of both matrices, one behind the other. */
  private static float[] beside(float[] left, float[] right, int width) {
    var both = new float[left.length + right.length];
    for (int row = 0; row < left.length / width; row++) {
      System.arraycopy(left, row * width, both, 2 * row * width, width);
      System.arraycopy(right, row * width, both, (2 * row + 1) * width, width);
    }
    return both;
  }

  @Test
  void conversionsAndSumsRoundOnce() {
    for (int number = 0; number < CASES; number++) {
      int vectors = random.nextInt(300);
      float[] first = values(vectors * MoeKernel.VECTOR, 1);
      float[] second = rounded(values(first.length, 1));
      MemorySegment narrow = memory.allocate((long) first.length * Short.BYTES);
      run(MoeKernel.TO_BF16, 0, memory.of(first), narrow, vectors);
      assertThat(bf16Values(narrow)).isEqualTo(rounded(first));
      MemorySegment wide = memory.allocate((long) first.length * Float.BYTES);
      run(MoeKernel.TO_FP32, 0, narrow, wide, vectors);
      assertThat(floats(wide)).isEqualTo(rounded(first));
      MemorySegment sum = memory.allocate(narrow.byteSize());
      run(MoeKernel.ADD, 0, narrow, bf16(second), sum, vectors);
      float[] sums = rounded(first);
      for (int i = 0; i < sums.length; i++) {
        sums[i] += second[i];
      }
      assertThat(bf16Values(sum)).isEqualTo(rounded(sums));
    }
  }
}
