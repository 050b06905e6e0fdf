package org.ep4j.moe;

import static org.assertj.core.api.Assertions.assertThat;

import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.util.Arrays;
import org.ep4j.engine.host.kernel.Fp8;
import org.ep4j.engine.host.kernel.RowKernels;
import org.ep4j.moe.gpu.MoeKernel;
import org.ep4j.tensor.FloatConversions;
import org.ep4j.tensor.ScaleKind;
import org.junit.jupiter.api.Test;

/** The kernels of a layer for rows and weights of FP8 in the emulator, on random cases. */
class MoeFp8KernelsOnTheHostTest extends EmulatedKernelCases {
  /** Blocks of one kind: of all sizes, with numbers between those of FP8, and with none at all. */
  private void fill(short[] x, int from, int to) {
    int kind = random.nextInt(8);
    float scale = (float) Math.scalb(1.0, random.nextInt(250) - 125);
    for (int i = from; i < to; i++) {
      x[i] =
          switch (kind) {
            case 0 -> random.nextBoolean() ? 0 : Short.MIN_VALUE; // zeros of both signs
            case 1 -> (short) (random.nextInt(0x100) | random.nextInt(2) << 15); // denormals
            case 2 -> withoutSignal((short) random.nextInt()); // NaN and infinities too
            case 3 -> (short) (0x7f7f - random.nextInt(4)); // the largest numbers
            case 4 -> FloatConversions.floatToBf16((random.nextInt(257) - 128) / 128f); // ties
            default -> FloatConversions.floatToBf16(scale * (float) random.nextGaussian());
          };
    }
  }

  /** A GPU's maximum ignores signalling NaN; that of the host's C library does not. */
  private static short withoutSignal(short bits) {
    return Float.isNaN(FloatConversions.bf16ToFloat(bits)) ? (short) (bits | 0x40) : bits;
  }

  @Test
  void rowsOfFp8AreThoseOfTheHost() {
    for (int number = 0; number < CASES; number++) {
      int blocks = random.nextInt(12);
      int elements = blocks * Fp8.BLOCK;
      var x = new short[elements];
      for (int block = 0; block < blocks; block++) {
        fill(x, block * Fp8.BLOCK, (block + 1) * Fp8.BLOCK);
      }
      MemorySegment tokens = memory.of(x);
      MemorySegment rows = memory.allocate(elements);
      MemorySegment scales = memory.allocate((long) blocks * Float.BYTES);
      run(MoeKernel.QUANTISE, 0, tokens, rows, scales, blocks);
      MemorySegment ofHost = memory.allocate(elements);
      MemorySegment scalesOfHost = memory.allocate((long) blocks * Float.BYTES);
      RowKernels.get()
          .encodeFp8(
              tokens.address(),
              elements,
              ofHost.address(),
              scalesOfHost.address(),
              ScaleKind.FLOAT32);
      String about = "case " + number + " of seed " + SEED;
      assertThat(rows.toArray(ValueLayout.JAVA_BYTE))
          .as(about)
          .isEqualTo(ofHost.toArray(ValueLayout.JAVA_BYTE));
      assertThat(scales.toArray(ValueLayout.JAVA_INT))
          .as(about)
          .isEqualTo(scalesOfHost.toArray(ValueLayout.JAVA_INT));
    }
  }

  /** All codes, scales of all sizes; groups with impossible numbers of rows, or without numbers. */
  @Test
  void valuesOfFp8RowsAreThoseOfTheHost() {
    for (int number = 0; number < CASES; number++) {
      int groups = 1 + random.nextInt(4);
      int places = 1 + random.nextInt(20);
      int hidden = Fp8.BLOCK * (1 + random.nextInt(5));
      int elements = groups * places * hidden;
      var codes = new byte[elements];
      random.nextBytes(codes);
      MemorySegment rows = bytes(codes);
      float[] factors = values(elements / Fp8.BLOCK, 1);
      for (int i = 0; i < factors.length; i++) {
        factors[i] *= (float) Math.scalb(1.0, random.nextInt(200) - 120);
      }
      factors[0] = Float.POSITIVE_INFINITY;
      MemorySegment scales = memory.of(factors);
      short[] before = new short[elements];
      Arrays.fill(before, (short) 0x1234);
      MemorySegment out = memory.of(before);
      FewRowsCase.Counts counts = FewRowsCase.Counts.of(random, groups, places);
      boolean counted = random.nextInt(4) > 0;
      run(
          MoeKernel.DEQUANTISE,
          0,
          rows,
          scales,
          counted ? memory.of(counts.given()) : 0,
          places,
          groups,
          hidden,
          out);
      MemorySegment expected = memory.allocate(2L * elements);
      RowKernels.get()
          .dequantiseFp8(
              rows.address(), scales.address(), ScaleKind.FLOAT32, elements, expected.address());
      short[] values = expected.toArray(ValueLayout.JAVA_SHORT);
      for (int g = 0; g < groups && counted; g++) {
        int from = (g * places + counts.rows()[g]) * hidden;
        Arrays.fill(values, from, (g + 1) * places * hidden, (short) 0x1234);
      }
      assertThat(out.toArray(ValueLayout.JAVA_SHORT))
          .as("case " + number + " of seed " + SEED)
          .isEqualTo(values);
    }
  }

  @Test
  void fewRowsAreMultipliedByWeightsOfFp8() {
    for (int number = 0; number < CASES / 4; number++) {
      var of = new FewRowsCase(random, true);
      MemorySegment out = bf16(of.before);
      runIn(
          MoeKernel.FEW_ROWS_FP8,
          MoeKernel.FEW_ROWS_FP8_BYTES,
          bf16(of.x),
          memory.of(of.counts.given()),
          of.places,
          of.experts,
          of.columns,
          of.terms,
          bytes(of.codes),
          memory.of(of.factors),
          out);
      of.check("case " + number + " of seed " + SEED, bf16Values(out));
    }
  }

  @Test
  void weightsOfFp8AreRoundedOnce() {
    for (int number = 0; number < CASES / 4; number++) {
      var of = new FewRowsCase(random, true);
      MemorySegment out = memory.allocate(2L * of.codes.length);
      run(
          MoeKernel.DEQUANTISE_WEIGHTS,
          0,
          bytes(of.codes),
          memory.of(of.factors),
          of.experts * of.columns,
          of.terms,
          out);
      assertThat(bf16Values(out)).isEqualTo(rounded(of.weights));
    }
  }

  @Test
  void scalesOfGroupsAreTransposed() {
    for (int number = 0; number < CASES; number++) {
      int groups = random.nextInt(5);
      int blocks = 1 + random.nextInt(6);
      var starts = new long[groups + 1];
      starts[0] = random.nextInt(3);
      for (int g = 0; g < groups; g++) {
        starts[g + 1] = starts[g] + random.nextInt(40);
      }
      int places = Math.toIntExact(starts[groups]);
      float[] scales = values(places * blocks, 1);
      float[] expected = values(places * blocks, 1);
      MemorySegment out = memory.of(expected);
      for (int g = 0; g < groups; g++) {
        int first = Math.toIntExact(starts[g]);
        int rows = Math.toIntExact(starts[g + 1]) - first;
        for (int row = 0; row < rows; row++) {
          for (int block = 0; block < blocks; block++) {
            expected[first * blocks + block * rows + row] = scales[(first + row) * blocks + block];
          }
        }
      }
      run(MoeKernel.SCALES_OF_GROUPS, 0, memory.of(scales), memory.of(starts), groups, blocks, out);
      assertThat(floats(out)).as("case " + number + " of seed " + SEED).isEqualTo(expected);
    }
  }
}
