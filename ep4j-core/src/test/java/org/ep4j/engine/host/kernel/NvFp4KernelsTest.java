package org.ep4j.engine.host.kernel;

import static org.assertj.core.api.Assertions.assertThat;

import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.util.Random;
import org.junit.jupiter.api.parallel.Execution;
import org.junit.jupiter.api.parallel.ExecutionMode;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.MethodSource;

@Execution(ExecutionMode.CONCURRENT) // arithmetic of one thread
class NvFp4KernelsTest {
  private static final long SEED = 20260703;

  private static float widen(short bits) {
    return Float.intBitsToFloat(bits << 16);
  }

  private static float e4m3(int code) {
    float magnitude =
        (code & 0x7F) == 0x7F ? Float.NaN : (float) Grid.E4M3.magnitudes()[code & 0x7F];
    return code < 128 ? magnitude : -magnitude;
  }

  private static short[] row(Random random, int hidden) {
    short[] row = new short[hidden];
    for (int block = 0; block < hidden / 16; block++) {
      int kind = random.nextInt(8);
      for (int i = block * 16; i < (block + 1) * 16; i++) {
        float normal = (float) random.nextGaussian();
        row[i] =
            switch (kind) {
              case 0 -> Grid.BF16.round16(normal * 1e-6f);
              case 1 -> Grid.BF16.round16(normal * 1e37f);
              case 2 -> (short) (random.nextInt() & 0x8000);
              case 3 -> (short) random.nextInt();
              case 4 -> random.nextInt(20) == 0 ? (short) 0xFF80 : Grid.BF16.round16(normal);
              default -> Grid.BF16.round16(normal);
            };
      }
    }
    return row;
  }

  @ParameterizedTest
  @MethodSource("org.ep4j.engine.host.kernel.KernelWidths#all")
  void aBlockOfSixteenIsScaledByItsLargestMagnitude(RowKernels kernels) {
    Random random = new Random(SEED);
    float[] globals = {1, 2688 / 4f, 0.37f, 1e-20f, 1e20f, Float.MAX_VALUE, 2688 / 1e37f};
    for (int run = 0; run < 140; run++) {
      float global = globals[run % globals.length];
      int hidden = 16 * (1 + random.nextInt(30));
      short[] row = row(random, hidden);
      try (GuardedMemory memory = new GuardedMemory()) {
        MemorySegment values = memory.allocate(hidden / 2);
        MemorySegment scales = memory.allocate(hidden / 16);
        kernels.encodeNvFp4(
            memory.shorts(row).address(), hidden, global, values.address(), scales.address());
        for (int block = 0; block < hidden / 16; block++) {
          assertBlock(row, block, global, values, scales);
        }
        memory.assertMarginsUntouched();
      }
    }
  }

  private static void assertBlock(
      short[] row, int block, float global, MemorySegment values, MemorySegment scales) {
    float amax = 0;
    for (int i = block * 16; i < (block + 1) * 16; i++) {
      float magnitude = Math.abs(widen(row[i]));
      if (magnitude > amax) {
        amax = magnitude;
      }
    }
    String where = "block " + block + ", amax " + amax + ", global " + global + ", seed " + SEED;
    float wanted = global * (amax * (1 / 6f));
    int scale = Float.isNaN(wanted) ? 0x7F : Grid.E4M3.nearest(wanted);
    assertThat(scales.get(ValueLayout.JAVA_BYTE, block) & 0xFF).as(where).isEqualTo(scale);
    float multiplier = scale == 0 ? 0 : global / e4m3(scale);
    for (int i = block * 16; i < (block + 1) * 16; i++) {
      float scaled = widen(row[i]) * multiplier;
      int expected =
          Float.isNaN(scaled)
              ? 7
              : Grid.E2M1.nearest(scaled) | Float.floatToRawIntBits(scaled) >>> 28 & 8;
      int actual = values.get(ValueLayout.JAVA_BYTE, i / 2) >> 4 * (i & 1) & 0xF;
      if (actual != expected) {
        assertThat(actual).as("element %d of %s", i, where).isEqualTo(expected);
      }
    }
  }

  @ParameterizedTest
  @MethodSource("org.ep4j.engine.host.kernel.KernelWidths#all")
  void dequantisedValuesAreRoundedProducts(RowKernels kernels) {
    Random random = new Random(SEED + 1);
    for (int run = 0; run < 60; run++) {
      int hidden = 16 * (1 + random.nextInt(30));
      float global = (float) Math.exp(5 * random.nextGaussian());
      byte[] codes = new byte[hidden / 2];
      byte[] scaleCodes = new byte[hidden / 16];
      random.nextBytes(codes);
      random.nextBytes(scaleCodes);
      try (GuardedMemory memory = new GuardedMemory()) {
        MemorySegment values = memory.allocate(codes.length);
        values.copyFrom(MemorySegment.ofArray(codes));
        MemorySegment scales = memory.allocate(scaleCodes.length);
        scales.copyFrom(MemorySegment.ofArray(scaleCodes));
        short[] expected = new short[hidden];
        for (int i = 0; i < hidden; i++) {
          int code = codes[i / 2] >> 4 * (i & 1) & 0xF;
          float magnitude = (float) Grid.E2M1.magnitudes()[code & 7];
          float value = code < 8 ? magnitude : -magnitude;
          expected[i] = Grid.BF16.round16(value * (e4m3(scaleCodes[i / 16] & 0xFF) / global));
        }
        MemorySegment row = memory.allocate(2L * hidden);
        kernels.dequantiseNvFp4(values.address(), scales.address(), global, hidden, row.address());
        assertThat(GuardedMemory.shorts(row)).as("seed %d", SEED + 1).isEqualTo(expected);
        memory.assertMarginsUntouched();
      }
    }
  }

  @ParameterizedTest
  @MethodSource("org.ep4j.engine.host.kernel.KernelWidths#all")
  void theLargestMagnitudeIgnoresNan(RowKernels kernels) {
    Random random = new Random(SEED + 2);
    for (int elements = 0; elements < 300; elements += 2) {
      short[] row = new short[elements];
      float largest = 0;
      for (int i = 0; i < elements; i++) {
        row[i] = (short) random.nextInt();
        if (elements % 3 == 0) {
          row[i] &= (short) 0xBFFF; // no NaN, no infinity
        }
        largest = Math.abs(widen(row[i])) > largest ? Math.abs(widen(row[i])) : largest;
      }
      try (GuardedMemory memory = new GuardedMemory()) {
        assertThat(kernels.largestMagnitude(memory.shorts(row).address(), elements))
            .as("%d elements, seed %d", elements, SEED + 2)
            .isEqualTo(largest);
      }
    }
  }
}
