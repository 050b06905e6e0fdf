package org.ep4j.moe;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.within;

import java.util.Arrays;
import java.util.Random;
import org.ep4j.tensor.DType;
import org.ep4j.tensor.FloatConversions;
import org.ep4j.tensor.Tensor;

/**
 * A random case of products of few rows: each expert has the first rows of its places. Values are
 * those of BF16.
 */
final class FewRowsCase {
  /** Rows and columns of a block of FP8 weights. */
  private static final int BLOCK = 128;

  final int experts;
  final int places;
  final int columns;
  final int terms;
  final Counts counts;

  /** Codes of FP8 of the weights, and factors of their blocks; none for weights of BF16. */
  final byte[] codes;

  final float[] factors;

  /** [experts, places, terms]; no numbers behind the rows of an expert. */
  final float[] x;

  /** [experts, columns, terms]. */
  final float[] weights;

  /** What lies where results go, [experts, places, columns]. */
  final float[] before;

  /** Numbers of rows of groups: as given, also impossible ones, and what they mean. */
  record Counts(int[] given, int[] rows) {
    static Counts of(Random random, int groups, int places) {
      var given = new int[groups];
      var rows = new int[groups];
      for (int g = 0; g < groups; g++) {
        given[g] =
            switch (random.nextInt(8)) {
              case 0 -> 0;
              case 1 -> places;
              case 2 -> places + 1 + random.nextInt(1000);
              case 3 -> -1 - random.nextInt(1000);
              default -> random.nextInt(places + 1);
            };
        rows[g] = Math.clamp(given[g], 0, places);
      }
      return new Counts(given, rows);
    }
  }

  /** A case with weights of BF16. */
  FewRowsCase(Random random) {
    this(random, false);
  }

  FewRowsCase(Random random, boolean fp8) {
    experts = 1 + random.nextInt(4);
    places = 1 + random.nextInt(random.nextInt(4) == 0 ? 150 : 20);
    columns = fp8 ? BLOCK * (1 + random.nextInt(2)) : 8 * (1 + random.nextInt(18));
    terms = fp8 ? BLOCK * (1 + random.nextInt(3)) : 8 * (1 + random.nextInt(40));
    counts = Counts.of(random, experts, places);
    x = values(random, experts * places * terms, 1);
    if (fp8) {
      codes = codes(random, experts * columns * terms);
      factors = new float[codes.length / BLOCK / BLOCK];
      for (int i = 0; i < factors.length; i++) {
        factors[i] = .01f + random.nextFloat();
      }
      weights = dequantised(codes, factors, terms);
    } else {
      codes = new byte[0];
      factors = new float[0];
      weights = values(random, experts * columns * terms, .2f);
    }
    before = values(random, experts * places * columns, 1);
    for (int e = 0; e < experts; e++) {
      int from = (e * places + counts.rows[e]) * terms;
      Arrays.fill(x, from, (e + 1) * places * terms, Float.NaN);
    }
  }

  /** All codes but those of NaN. */
  private static byte[] codes(Random random, int count) {
    var codes = new byte[count];
    random.nextBytes(codes);
    for (int i = 0; i < count; i++) {
      codes[i] = (codes[i] & 0x7f) == 0x7f ? 0 : codes[i];
    }
    return codes;
  }

  /** Exact products of elements and factors of a matrix, or of matrices of whole blocks. */
  static float[] dequantised(byte[] codes, float[] factors, int columns) {
    float[] values = FloatConversions.e4m3ToFloat(codes);
    int across = columns / BLOCK;
    for (int i = 0; i < values.length; i++) {
      values[i] *= factors[i / columns / BLOCK * across + i % columns / BLOCK];
    }
    return values;
  }

  private static float[] values(Random random, int count, float scale) {
    var values = new float[count];
    for (int i = 0; i < count; i++) {
      values[i] = scale * (float) random.nextGaussian();
    }
    return Tensor.fromFloats(values, DType.BF16, count).toFloatArray();
  }

  /** Compares with sums in double precision, and what lies behind the rows with what was there. */
  void check(String about, float[] out) {
    assertThat(out).hasSameSizeAs(before);
    for (int row = 0; row < experts * places; row++) {
      int expert = row / places;
      for (int c = 0; c < columns; c++) {
        float value = out[row * columns + c];
        if (row % places >= counts.rows[expert]) {
          assertThat(value).as(about).isEqualTo(before[row * columns + c]);
          continue;
        }
        double sum = 0;
        double size = 0;
        for (int k = 0; k < terms; k++) {
          double product =
              (double) x[row * terms + k] * weights[(expert * columns + c) * terms + k];
          sum += product;
          size += Math.abs(product);
        }
        // Rounded once, after sums in FP32.
        double bound = Math.abs(sum) * 0x1p-8 + size * 1e-6;
        assertThat((double) value).as(about).isCloseTo(sum, within(bound));
      }
    }
  }
}
