package org.ep4j.verify;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.catchThrowableOfType;

import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.util.ArrayList;
import java.util.List;
import java.util.SplittableRandom;
import org.ep4j.config.Layout;
import org.ep4j.routing.ExpertPlacement;
import org.ep4j.routing.Routing;
import org.ep4j.tensor.DType;
import org.ep4j.tensor.Tensor;
import org.ep4j.verify.CombineOracle.Terms;
import org.ep4j.verify.NaiveWorld.Pair;
import org.jspecify.annotations.Nullable;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

class CombineOracleTest {
  private static final int HIDDEN = 24;
  private static final int RANK = 1;
  private static final int ALIGNMENT = 3;

  private static WorldRouting world() {
    RoutingGenerator generator = new RoutingGenerator(RoutingKind.HOT, 11, 10, 4);
    List<Routing> routings = new ArrayList<>();
    try (Arena arena = Arena.ofConfined()) {
      for (int tokens : new int[] {3, 12, 1, 5}) {
        routings.add(generator.routing(routings.size(), tokens, 40, arena));
      }
      return WorldRouting.of(ExpertPlacement.blocks(10, 4), routings);
    }
  }

  /**
   * The sums, element by element: filters the rows that {@link NaiveWorld} places for each token,
   * in ascending order of ranks and rows, which is ascending order of experts.
   */
  private static Tensor sums(
      WorldRouting world, Layout layout, Terms terms, boolean biased, Arena arena) {
    NaiveWorld naive = new NaiveWorld(world);
    int tokens = world.tokens(RANK);
    Tensor sums =
        Tensor.of(
            arena.allocate(terms.dtype().bytes((long) tokens * HIDDEN)),
            terms.dtype(),
            tokens,
            HIDDEN);
    for (int t = 0; t < tokens; t++) {
      float[] total = new float[HIDDEN];
      if (biased && terms.bias0() != null && terms.bias1() != null) {
        addTo(total, terms.bias0().row(RANK, t), 1, terms.dtype());
        addTo(total, terms.bias1().row(RANK, t), 1, terms.dtype());
      }
      for (int d = 0; d < world.ranks(); d++) {
        float[] partial = new float[HIDDEN];
        List<@Nullable Pair> rows = naive.rowsOf(d, layout, ALIGNMENT);
        for (int i = 0; i < rows.size(); i++) {
          Pair pair = rows.get(i);
          if (pair != null && pair.rank() == RANK && pair.token() == t) {
            float weight = terms.applyWeights() ? world.weight(RANK, t, pair.choice()) : 1;
            addTo(partial, terms.y().row(d, i), weight, terms.dtype());
          }
        }
        for (int h = 0; h < HIDDEN; h++) {
          total[h] +=
              layout == Layout.FLAT || !terms.partialRounding()
                  ? partial[h]
                  : read(write(partial[h], terms.dtype()), terms.dtype());
        }
      }
      for (int h = 0; h < HIDDEN; h++) {
        byte[] bytes = write(total[h], terms.dtype());
        long at = ((long) t * HIDDEN + h) * bytes.length;
        MemorySegment.copy(bytes, 0, sums.segment(), ValueLayout.JAVA_BYTE, at, bytes.length);
      }
    }
    return sums;
  }

  private static void addTo(float[] sum, MemorySegment row, float weight, DType dtype) {
    int bytes = dtype.bits() / 8;
    for (int h = 0; h < HIDDEN; h++) {
      byte[] element = row.asSlice((long) h * bytes, bytes).toArray(ValueLayout.JAVA_BYTE);
      // A product of two floats is exact in double, so the cast is its only rounding.
      sum[h] += (float) ((double) read(element, dtype) * weight);
    }
  }

  private static float read(byte[] e, DType dtype) {
    int low = e[0] & 0xff | (e[1] & 0xff) << 8;
    return switch (dtype) {
      case BF16 -> Float.intBitsToFloat(low << 16);
      case FP16 -> Float.float16ToFloat((short) low);
      default -> Float.intBitsToFloat(low | (e[2] & 0xff) << 16 | e[3] << 24);
    };
  }

  /** Rounds by comparing both neighbours instead of by bits. */
  private static byte[] write(float value, DType dtype) {
    if (dtype == DType.FP32) {
      int b = Float.floatToRawIntBits(value);
      return new byte[] {(byte) b, (byte) (b >> 8), (byte) (b >> 16), (byte) (b >> 24)};
    }
    int bits = Float.floatToFloat16(value);
    if (dtype == DType.BF16) {
      int down = Float.floatToRawIntBits(value) & 0xFFFF_0000;
      int up = down + 0x1_0000;
      double toDown = Math.abs((double) value - Float.intBitsToFloat(down));
      double toUp = Math.abs((double) value - Float.intBitsToFloat(up));
      boolean even = (down >>> 16) % 2 == 0;
      bits = (toDown < toUp || (toDown == toUp && even) ? down : up) >>> 16;
    }
    return new byte[] {(byte) bits, (byte) (bits >> 8)};
  }

  @ParameterizedTest
  @CsvSource({
    "FLAT, BF16, true, false, false",
    "FLAT, BF16, true, false, true",
    "FLAT, FP16, true, false, true",
    "FLAT, FP32, true, false, true",
    "EXPERT_MAJOR, BF16, true, false, false",
    "EXPERT_MAJOR, BF16, false, false, true",
    "EXPERT_MAJOR, FP16, true, false, true",
    "EXPERT_MAJOR, FP32, false, false, false",
    "EXPERT_MAJOR, BF16, true, true, true",
    "EXPERT_MAJOR, FP16, false, true, true",
    "EXPERT_MAJOR, FP32, true, true, false",
  })
  void rightSumsPassAndEveryFlippedBitIsFound(
      Layout layout, DType dtype, boolean partialRounding, boolean applyWeights, boolean biased) {
    WorldRouting world = world();
    Inputs inputs = new Inputs(8);
    Rows weights = inputs.rows(Inputs.Part.SCALES, DType.FP32, layout == Layout.FLAT ? 4 : 1);
    Terms terms =
        new Terms(
            dtype,
            HIDDEN,
            inputs.rows(Inputs.Part.EXPERT_OUTPUT, dtype, HIDDEN),
            partialRounding,
            applyWeights,
            biased ? inputs.rows(Inputs.Part.BIAS0, dtype, HIDDEN) : null,
            biased ? inputs.rows(Inputs.Part.BIAS1, dtype, HIDDEN) : null,
            weights);
    CombineOracle oracle = new CombineOracle(world, layout, ALIGNMENT);
    try (Arena arena = Arena.ofConfined()) {
      Tensor x = sums(world, layout, terms, biased, arena);
      Tensor w = sumsOfWeights(world, layout, weights);
      oracle.check(RANK, x, w, terms);
      SplittableRandom random = new SplittableRandom(1);
      for (Tensor output : List.of(x, w)) {
        MemorySegment bytes = output.segment();
        for (int n = 0; n < 50; n++) {
          long at = random.nextLong(bytes.byteSize());
          byte old = bytes.get(ValueLayout.JAVA_BYTE, at);
          bytes.set(ValueLayout.JAVA_BYTE, at, (byte) (old ^ 1 << random.nextInt(8)));
          VerificationException e =
              catchThrowableOfType(
                  VerificationException.class, () -> oracle.check(RANK, x, w, terms));
          assertThat(e).isNotNull();
          assertThat(e.mismatch().sourceToken())
              .isEqualTo((int) (at / (bytes.byteSize() / output.size(0))));
          bytes.set(ValueLayout.JAVA_BYTE, at, old);
        }
      }
    }
  }

  private static Tensor sumsOfWeights(WorldRouting world, Layout layout, Rows weights) {
    int tokens = world.tokens(RANK);
    Tensor sums = Tensor.of(new float[tokens * 4], tokens, 4);
    NaiveWorld naive = new NaiveWorld(world);
    for (int d = 0; d < world.ranks(); d++) {
      List<@Nullable Pair> rows = naive.rowsOf(d, layout, ALIGNMENT);
      for (int i = 0; i < rows.size(); i++) {
        Pair pair = rows.get(i);
        if (pair == null || pair.rank() != RANK) {
          continue;
        }
        MemorySegment row = weights.row(d, i);
        for (int k = 0; k < 4; k++) {
          if (layout == Layout.FLAT || k == pair.choice()) {
            long at = 4 * (pair.token() * 4L + k);
            float weight =
                row.get(ValueLayout.JAVA_FLOAT_UNALIGNED, layout == Layout.FLAT ? 4L * k : 0);
            float before = sums.segment().get(ValueLayout.JAVA_FLOAT_UNALIGNED, at);
            sums.segment().set(ValueLayout.JAVA_FLOAT_UNALIGNED, at, before + weight);
          }
        }
      }
    }
    return sums;
  }
}
