package org.ep4j.engine.host.kernel;

import static org.assertj.core.api.Assertions.assertThat;

import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.math.BigInteger;
import java.util.Arrays;
import java.util.Random;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.parallel.Execution;
import org.junit.jupiter.api.parallel.ExecutionMode;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.MethodSource;

@Execution(ExecutionMode.CONCURRENT) // arithmetic of one thread
class LogFmtKernelsTest {
  private static final long SEED = 20260704;

  /** A row of groups that can be packed, with magnitudes spread over {@code binades}. */
  private static short[] packableRow(Random random, int hidden, double binades) {
    short[] row = new short[hidden];
    for (int group = 0; group < hidden / 128; group++) {
      double top = -0.01 - random.nextInt(20);
      for (int i = group * 128; i < (group + 1) * 128; i++) {
        double value = Math.pow(2, top - binades * random.nextDouble());
        row[i] = Grid.BF16.round16((float) (random.nextBoolean() ? value : -value));
      }
    }
    return row;
  }

  private static byte[] encode(RowKernels kernels, short[] row) {
    try (GuardedMemory memory = new GuardedMemory()) {
      MemorySegment target = memory.allocate(LogFmt.maxBytes(row.length));
      int bytes = kernels.encodeLogFmt(memory.shorts(row).address(), row.length, target.address());
      memory.assertMarginsUntouched();
      return Arrays.copyOf(GuardedMemory.bytes(target), bytes);
    }
  }

  private static short[] decode(RowKernels kernels, byte[] encoded, int hidden) {
    try (GuardedMemory memory = new GuardedMemory()) {
      MemorySegment source = memory.allocate(encoded.length);
      source.copyFrom(MemorySegment.ofArray(encoded));
      MemorySegment target = memory.allocate(2L * hidden);
      kernels.decodeLogFmt(source.address(), hidden, target.address());
      memory.assertMarginsUntouched();
      return GuardedMemory.shorts(target);
    }
  }

  /** Code and sign of value {@code i} of a row whose chunks are all packed. */
  private static int codeAndSign(byte[] encoded, int hidden, int i) {
    int at = hidden / 128 * 4 + i / 16 * 20;
    byte[] bigEndian = new byte[20];
    for (int b = 0; b < 20; b++) {
      bigEndian[19 - b] = encoded[at + b];
    }
    BigInteger bits = new BigInteger(1, bigEndian);
    int code = bits.shiftRight(9 * (i % 16)).intValue() & 0x1FF;
    return bits.testBit(144 + i % 16) ? code | 0x8000 : code;
  }

  private static int meta(byte[] encoded, int group) {
    return MemorySegment.ofArray(encoded).get(ValueLayout.JAVA_INT_UNALIGNED, 4L * group);
  }

  @Test
  void thePolynomialsHaveTheDocumentedError() {
    for (int m = 0; m < 128; m++) {
      double exact = Math.log(1 + m / 128.0) / Math.log(2);
      assertThat(Math.abs(LogFmt.fractionLog(0x3F80 | m, 0) - exact)).isLessThan(2.1e-6);
    }
    // A step of 2^-9 from 2^-1: the code is 512 times the distance of the logarithms, plus one.
    for (int code = 1; code < 512; code++) {
      double exact = Math.pow(2, (code - 1) / 512.0 - 1);
      short nearest = Grid.BF16.round16((float) exact);
      int actual = LogFmt.magnitude(code, 126, 0, 0x1p-9f);
      assertThat(Math.abs(actual - nearest)).as("code %d", code).isLessThanOrEqualTo(1);
      if (actual != nearest) { // only next to a tie
        double middle = (Grid.BF16.magnitudes()[actual] + Grid.BF16.magnitudes()[nearest]) / 2;
        assertThat(Math.abs(exact / middle - 1)).isLessThan(3e-6);
      }
    }
  }

  @ParameterizedTest
  @MethodSource("org.ep4j.engine.host.kernel.KernelWidths#all")
  void codesAreTheNearestAndPackedAsTheLayoutDefines(RowKernels kernels) {
    Random random = new Random(SEED);
    for (int hidden : new int[] {128, 384, 512, 1536, 1024, 2048}) {
      short[] row = packableRow(random, hidden, 1 + random.nextInt(40));
      row[random.nextInt(hidden)] = (short) 0x8000;
      byte[] encoded = encode(kernels, row);
      assertThat(encoded).hasSize(hidden / 128 * 4 + hidden * 10 / 8);
      int exact = 0;
      for (int group = 0; group < hidden / 128; group++) {
        int max = 0;
        int min = 0x7FFF;
        for (int i = group * 128; i < (group + 1) * 128; i++) {
          max = Math.max(max, row[i] & 0x7FFF);
          min = Math.min(min, row[i] & 0x7FFF);
        }
        assertThat(meta(encoded, group)).isEqualTo(min << 16 | max);
        for (int i = group * 128; i < (group + 1) * 128; i++) {
          int actual = codeAndSign(encoded, hidden, i);
          assertThat(actual & 0x8000).isEqualTo(row[i] & 0x8000);
          int ideal = idealCode(row[i] & 0x7FFF, min, max);
          assertThat(actual & 0x1FF)
              .as("value %d of %d, seed %d", i, hidden, SEED)
              .isBetween(ideal - 1, ideal + 1);
          exact += (actual & 0x1FF) == ideal ? 1 : 0;
        }
      }
      assertThat(exact).as("codes as in exact arithmetic").isGreaterThan(hidden * 99 / 100);
    }
  }

  /** The code whose value is nearest, in double arithmetic. */
  private static int idealCode(int bits, int min, int max) {
    double[] magnitudes = Grid.BF16.magnitudes();
    if (bits == 0) {
      return 0;
    }
    double log2 = Math.log(2);
    double top = Math.log(magnitudes[max]) / log2;
    double floor = Math.max(min == 0 ? -1000 : Math.log(magnitudes[min]) / log2, top - 32);
    double step = (top - floor) / 510;
    double place = (Math.log(magnitudes[bits]) / log2 - floor) / step;
    double border = Math.log((1 + Math.pow(2, step)) / 2) / log2 / step;
    return (int) Math.max(Math.floor(place + 2 - border), 0);
  }

  @ParameterizedTest
  @MethodSource("org.ep4j.engine.host.kernel.KernelWidths#all")
  void decodedValuesAreCloseAndTheLargestIsExact(RowKernels kernels) {
    Random random = new Random(SEED + 1);
    for (int run = 0; run < 40; run++) {
      int hidden = 128 * (1 + random.nextInt(12));
      double binades = run % 4 == 0 ? 0.1 : 1 + random.nextInt(31);
      short[] row = packableRow(random, hidden, binades);
      short[] back = decode(kernels, encode(kernels, row), hidden);
      for (int group = 0; group < hidden / 128; group++) {
        int max = 0;
        for (int i = group * 128; i < (group + 1) * 128; i++) {
          max = Math.max(max, row[i] & 0x7FFF);
        }
        // Half a step of the group, half a bit of bf16, and the polynomials.
        double tolerance = Math.pow(2, (binades + 0.02) / 510 / 2) - 1 + 0x1p-8 + 1e-5;
        for (int i = group * 128; i < (group + 1) * 128; i++) {
          double was = Float.intBitsToFloat(row[i] << 16);
          double is = Float.intBitsToFloat(back[i] << 16);
          assertThat(Math.abs(is / was - 1))
              .as("value %d: %g became %g, seed %d", i, was, is, SEED + 1)
              .isLessThan(tolerance);
          if ((row[i] & 0x7FFF) == max) {
            assertThat(back[i]).isEqualTo(row[i]);
          }
        }
      }
    }
  }

  @ParameterizedTest
  @MethodSource("org.ep4j.engine.host.kernel.KernelWidths#all")
  void aChunkWithAnyGroupThatCannotBePackedStaysRaw(RowKernels kernels) {
    Random random = new Random(SEED + 2);
    short[][] spoilers = {
      {(short) 0x3F80}, // 1
      {(short) 0xFF80}, // minus infinity
      {(short) 0x7FC1}, // NaN
    };
    for (short[] spoiler : spoilers) {
      short[] row = packableRow(random, 2048, 5);
      row[1024 + random.nextInt(1024)] = spoiler[0];
      byte[] encoded = encode(kernels, row);
      assertThat(encoded).hasSize(2048 / 128 * 4 + 1024 * 10 / 8 + 2048);
      short[] back = decode(kernels, encoded, 2048);
      assertThat(Arrays.copyOfRange(back, 1024, 2048))
          .isEqualTo(Arrays.copyOfRange(row, 1024, 2048));
    }
    short[] constant = new short[512];
    Arrays.fill(constant, (short) 0xBE80);
    assertThat(encode(kernels, constant)).hasSize(LogFmt.maxBytes(512));
    assertThat(decode(kernels, encode(kernels, constant), 512)).isEqualTo(constant);
    short[] zeros = new short[384];
    assertThat(decode(kernels, encode(kernels, zeros), 384)).isEqualTo(zeros);
  }

  @ParameterizedTest
  @MethodSource("org.ep4j.engine.host.kernel.KernelWidths#all")
  void zerosKeepTheirSignsAndTinyValuesBecomeZero(RowKernels kernels) {
    short[] row = packableRow(new Random(SEED + 3), 128, 3);
    row[3] = 0;
    row[4] = (short) 0x8000;
    row[5] = 1; // a subnormal
    row[6] = Grid.BF16.round16(0x1p-60f);
    short[] back = decode(kernels, encode(kernels, row), 128);
    assertThat(back[3]).isEqualTo((short) 0);
    assertThat(back[4]).isEqualTo((short) 0x8000);
    assertThat(back[5]).isEqualTo((short) 0);
    assertThat(back[6]).isEqualTo((short) 0);
  }

  @ParameterizedTest
  @MethodSource("org.ep4j.engine.host.kernel.KernelWidths#all")
  void allKernelsGiveTheSameBits(RowKernels kernels) {
    Random random = new Random(SEED + 4);
    RowKernels plain = new PlainKernels();
    for (int run = 0; run < 150; run++) {
      int hidden = 128 * (1 + random.nextInt(12));
      short[] row = packableRow(random, hidden, 45 * random.nextDouble());
      if (run % 3 == 0) { // around the smallest normal number
        for (int i = 0; i < hidden; i++) {
          row[i] = (short) (random.nextInt(0x800) | random.nextInt() & 0x8000);
        }
      }
      byte[] encoded = encode(plain, row);
      assertThat(encode(kernels, row)).as("seed %d", SEED + 4).isEqualTo(encoded);
      assertThat(decode(kernels, encoded, hidden))
          .as("seed %d", SEED + 4)
          .isEqualTo(decode(plain, encoded, hidden));
    }
  }
}
