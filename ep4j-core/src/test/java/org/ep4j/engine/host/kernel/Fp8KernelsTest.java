package org.ep4j.engine.host.kernel;

import static org.assertj.core.api.Assertions.assertThat;

import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.util.Random;
import org.ep4j.tensor.ScaleKind;
import org.junit.jupiter.api.parallel.Execution;
import org.junit.jupiter.api.parallel.ExecutionMode;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.MethodSource;

@Execution(ExecutionMode.CONCURRENT) // arithmetic of one thread
class Fp8KernelsTest {
  private static final long SEED = 20260702;

  /** Rows with every kind of block: ordinary, tiny, huge, zero, any bits, infinities, NaN. */
  private static short[] row(Random random, int hidden) {
    short[] row = new short[hidden];
    for (int block = 0; block < hidden / 128; block++) {
      int kind = random.nextInt(8);
      for (int i = block * 128; i < (block + 1) * 128; i++) {
        float normal = (float) random.nextGaussian();
        row[i] =
            switch (kind) {
              case 0 -> Grid.BF16.round16(normal * 1e-6f);
              case 1 -> Grid.BF16.round16(normal * 1e37f);
              case 2 -> (short) (random.nextInt() & 0x8000);
              case 3 -> (short) (random.nextInt() & 0xBFFF); // magnitudes up to 2, most tiny
              case 4 -> random.nextInt(40) == 0 ? (short) 0xFF80 : Grid.BF16.round16(normal);
              case 5 -> random.nextInt(40) == 0 ? (short) random.nextInt() : (short) 0x3F80;
              default -> Grid.BF16.round16(normal);
            };
      }
    }
    return row;
  }

  private static float widen(short bits) {
    return Float.intBitsToFloat(bits << 16);
  }

  @ParameterizedTest
  @MethodSource("org.ep4j.engine.host.kernel.KernelWidths#all")
  void aBlockIsScaledByItsLargestMagnitude(RowKernels kernels) {
    Random random = new Random(SEED);
    for (int run = 0; run < 120; run++) {
      ScaleKind kind = ScaleKind.values()[run % 3];
      int hidden = 128 * (1 + random.nextInt(6));
      short[] row = row(random, hidden);
      try (GuardedMemory memory = new GuardedMemory()) {
        int scaleBytes = kind == ScaleKind.UE8M0 ? 1 : 4;
        MemorySegment values = memory.allocate(hidden);
        MemorySegment scales = memory.allocate((long) scaleBytes * hidden / 128);
        kernels.encodeFp8(
            memory.shorts(row).address(), hidden, values.address(), scales.address(), kind);
        for (int block = 0; block < hidden / 128; block++) {
          assertBlock(row, block, kind, values, scales);
        }
        memory.assertMarginsUntouched();
      }
    }
  }

  private static void assertBlock(
      short[] row, int block, ScaleKind kind, MemorySegment values, MemorySegment scales) {
    float amax = 1e-4f;
    for (int i = block * 128; i < (block + 1) * 128; i++) {
      float magnitude = Math.abs(widen(row[i]));
      if (magnitude > amax) {
        amax = magnitude;
      }
    }
    float scale = amax * (1 / 448f);
    float multiplier = 448 / amax;
    if (kind != ScaleKind.FLOAT32 && !Float.isInfinite(amax)) {
      int exponent = Math.getExponent(scale);
      if (Math.scalb(1f, exponent) != scale) {
        exponent++;
      }
      scale = Math.scalb(1f, exponent);
      multiplier = Math.scalb(1f, -exponent);
    }
    String where = "block " + block + ", " + kind + ", amax " + amax + ", seed " + SEED;
    if (kind == ScaleKind.UE8M0) {
      assertThat(scales.get(ValueLayout.JAVA_BYTE, block) & 0xFF)
          .as(where)
          .isEqualTo(Float.floatToRawIntBits(scale) >>> 23);
    } else {
      assertThat(scales.get(ValueLayout.JAVA_FLOAT_UNALIGNED, 4L * block))
          .as(where)
          .isEqualTo(scale);
    }
    for (int i = block * 128; i < (block + 1) * 128; i++) {
      float scaled = widen(row[i]) * multiplier;
      int expected =
          Float.isNaN(scaled)
              ? 0x7F
              : Grid.E4M3.nearest(scaled) | Float.floatToRawIntBits(scaled) >>> 24 & 0x80;
      int actual = values.get(ValueLayout.JAVA_BYTE, i) & 0xFF;
      if (actual != expected) {
        assertThat(actual).as("element %d of %s", i, where).isEqualTo(expected);
      }
    }
  }

  @ParameterizedTest
  @MethodSource("org.ep4j.engine.host.kernel.KernelWidths#all")
  void everyCodeWidensToItsBf16(RowKernels kernels) {
    for (int hidden : new int[] {0, 2, 30, 256, 256 + 126}) {
      try (GuardedMemory memory = new GuardedMemory()) {
        MemorySegment codes = memory.allocate(hidden);
        short[] expected = new short[hidden];
        for (int i = 0; i < hidden; i++) {
          int code = i * 7 + 120 & 0xFF; // 7 is odd: 256 consecutive ones are all codes
          codes.set(ValueLayout.JAVA_BYTE, i, (byte) code);
          int magnitude = code & 0x7F;
          expected[i] =
              magnitude == 0x7F
                  ? 0x7FFF
                  : (short)
                      (Grid.BF16.nearest(Grid.E4M3.magnitudes()[magnitude]) | (code & 0x80) << 8);
        }
        MemorySegment row = memory.allocate(2L * hidden);
        kernels.decodeFp8(codes.address(), hidden, row.address());
        assertThat(GuardedMemory.shorts(row)).isEqualTo(expected);
        memory.assertMarginsUntouched();
      }
    }
  }

  @ParameterizedTest
  @MethodSource("org.ep4j.engine.host.kernel.KernelWidths#all")
  void dequantisedValuesAreRoundedProducts(RowKernels kernels) {
    Random random = new Random(SEED + 1);
    for (int run = 0; run < 60; run++) {
      ScaleKind kind = ScaleKind.values()[run % 3];
      int hidden = 128 * (1 + random.nextInt(6));
      try (GuardedMemory memory = new GuardedMemory()) {
        MemorySegment codes = memory.allocate(hidden);
        byte[] bytes = new byte[hidden];
        random.nextBytes(bytes);
        codes.copyFrom(MemorySegment.ofArray(bytes));
        float[] scale = new float[hidden / 128];
        MemorySegment scales = memory.allocate((kind == ScaleKind.UE8M0 ? 1L : 4L) * scale.length);
        for (int block = 0; block < scale.length; block++) {
          int exponent = random.nextInt(1, 256);
          if (kind == ScaleKind.UE8M0) {
            scales.set(ValueLayout.JAVA_BYTE, block, (byte) exponent);
            scale[block] = Float.intBitsToFloat(exponent << 23);
          } else {
            scale[block] = (float) random.nextGaussian();
            scales.set(ValueLayout.JAVA_FLOAT_UNALIGNED, 4L * block, scale[block]);
          }
        }
        short[] expected = new short[hidden];
        for (int i = 0; i < hidden; i++) {
          int magnitude = bytes[i] & 0x7F;
          float value = magnitude == 0x7F ? Float.NaN : (float) Grid.E4M3.magnitudes()[magnitude];
          expected[i] = Grid.BF16.round16((bytes[i] < 0 ? -value : value) * scale[i / 128]);
        }
        MemorySegment row = memory.allocate(2L * hidden);
        kernels.dequantiseFp8(codes.address(), scales.address(), kind, hidden, row.address());
        assertThat(GuardedMemory.shorts(row)).as("seed %d", SEED + 1).isEqualTo(expected);
        memory.assertMarginsUntouched();
      }
    }
  }
}
