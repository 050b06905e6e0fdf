package org.ep4j.verify;

import static org.assertj.core.api.Assertions.assertThat;

import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.util.SplittableRandom;
import org.ep4j.engine.host.kernel.LogFmt;
import org.ep4j.engine.host.kernel.RowKernels;
import org.ep4j.tensor.ScaleKind;
import org.junit.jupiter.api.Test;

/**
 * The kernels of the host engine and the oracle were written independently, from the same
 * definitions: they must agree on rows of every kind. {@code -Dep4j.seed} repeats a run, {@code
 * -Dep4j.cases} lengthens it.
 */
class KernelsAgreeWithOracleTest {
  private static final int[] HIDDEN = {128, 384, 512, 1024, 1536};

  private final long seed = Long.getLong("ep4j.seed", 1);
  private final int cases = Integer.getInteger("ep4j.cases", 400);
  private final RowKernels kernels = RowKernels.get();

  @Test
  void onEveryRow() {
    System.out.println(
        getClass().getSimpleName() + ": -Dep4j.seed=" + seed + " -Dep4j.cases=" + cases);
    SplittableRandom random = new SplittableRandom(seed);
    for (int i = 0; i < cases; i++) {
      int hidden = HIDDEN[random.nextInt(HIDDEN.length)];
      try (Arena arena = Arena.ofConfined()) {
        MemorySegment row = row(arena, hidden, random);
        String name = "case " + i + ", hidden " + hidden;
        for (ScaleKind kind : ScaleKind.values()) {
          checkFp8(name, row, hidden, kind, arena);
        }
        checkNvFp4(name, row, hidden, Math.scalb(random.nextFloat() + 0.5f, 0), arena);
        checkNvFp4(name, row, hidden, Math.scalb(1.3f, random.nextInt(-40, 40)), arena);
        checkLogFmt(name, row, hidden, arena);
      }
    }
  }

  private void checkFp8(String name, MemorySegment row, int hidden, ScaleKind kind, Arena arena) {
    int scaleBytes = hidden / 128 * (kind == ScaleKind.UE8M0 ? 1 : 4);
    MemorySegment values = arena.allocate(hidden);
    MemorySegment scales = arena.allocate(scaleBytes);
    MemorySegment expected = arena.allocate(hidden);
    MemorySegment expectedScales = arena.allocate(scaleBytes);
    Quantisers.toFp8(row, kind, expected, expectedScales);
    kernels.encodeFp8(row.address(), hidden, values.address(), scales.address(), kind);
    assertSame(name + ", " + kind + ", scale", expectedScales, scales);
    assertSame(name + ", " + kind + ", value", expected, values);
  }

  private void checkNvFp4(
      String name, MemorySegment row, int hidden, float globalScale, Arena arena) {
    MemorySegment values = arena.allocate(hidden / 2);
    MemorySegment scales = arena.allocate(hidden / 16);
    MemorySegment expected = arena.allocate(hidden / 2);
    MemorySegment expectedScales = arena.allocate(hidden / 16);
    Quantisers.toNvFp4(row, globalScale, expected, expectedScales);
    kernels.encodeNvFp4(row.address(), hidden, globalScale, values.address(), scales.address());
    assertSame(name + ", NVFP4 scale", expectedScales, scales);
    assertSame(name + ", NVFP4 value", expected, values);
  }

  private void checkLogFmt(String name, MemorySegment row, int hidden, Arena arena) {
    MemorySegment encoded = arena.allocate(LogFmt.maxBytes(hidden), 64);
    MemorySegment received = arena.allocate(2L * hidden);
    MemorySegment expected = arena.allocate(2L * hidden);
    LogFmtRow.send(row, expected);
    kernels.encodeLogFmt(row.address(), hidden, encoded.address());
    kernels.decodeLogFmt(encoded.address(), hidden, received.address());
    assertSame(name + ", LogFMT", expected, received);
  }

  private static void assertSame(String what, MemorySegment expected, MemorySegment actual) {
    long at = expected.mismatch(actual);
    if (at >= 0) {
      assertThat(Mismatch.hex(actual, at))
          .as("%s, byte %d", what, at)
          .isEqualTo(Mismatch.hex(expected, at));
    }
  }

  private static MemorySegment row(Arena arena, int hidden, SplittableRandom random) {
    MemorySegment row = arena.allocate(2L * hidden, 64);
    int profile = random.nextInt(8);
    int exponent = random.nextInt(0, 254);
    for (int i = 0; i < hidden; i++) {
      if (i % 128 == 0) {
        profile = random.nextInt(4) == 0 ? random.nextInt(8) : profile;
        exponent = random.nextInt(3) == 0 ? random.nextInt(0, 254) : exponent;
      }
      int bits = random.nextInt(0x1_0000);
      int element =
          switch (profile) {
            case 0 -> bits; // anything, NaN and infinities too
            case 1 -> bits & 0x83FF | 0x3C00; // around 1
            case 2 -> bits & 0x81FF | 0x3C00; // below 1
            case 3 -> bits & 0x807F | exponent << 7; // one binade
            case 4 -> random.nextInt(20) == 0 ? bits & 0xBFFF : 0; // mostly zero, below 2
            case 5 -> exponent << 7 | 0x15; // one value
            case 6 -> bits & 0xBF7F; // below 1, of all magnitudes
            default -> bits & 0x807F; // subnormal
          };
      row.set(ValueLayout.JAVA_SHORT_UNALIGNED, 2L * i, (short) element);
    }
    return row;
  }
}
