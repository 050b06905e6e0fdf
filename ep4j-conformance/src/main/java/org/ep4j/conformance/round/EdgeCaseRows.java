package org.ep4j.conformance.round;

import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.util.SplittableRandom;
import org.ep4j.verify.Rows;

/**
 * BF16 rows of every kind, from (seed, rank, row): around 1, below 1, all of one binade, mostly
 * zero, all equal, of all magnitudes, subnormal. Finite, and small enough that sums are finite.
 */
public final class EdgeCaseRows implements Rows {
  private static final int BLOCK = 128;

  private final long seed;
  private final MemorySegment scratch;

  EdgeCaseRows(long seed, int hidden) {
    this.seed = seed;
    this.scratch = MemorySegment.ofArray(new short[hidden]);
  }

  @Override
  public MemorySegment row(int rank, long row) {
    fill(scratch, rank, row);
    return scratch;
  }

  /** Generates a row in {@code target}. */
  void fill(MemorySegment target, int rank, long row) {
    SplittableRandom random =
        new SplittableRandom(seed ^ (rank * 0x9E3779B97F4A7C15L + row * 0xBF58476D1CE4E5B9L));
    int profile = random.nextInt(7);
    int exponent = random.nextInt(90, 160);
    for (int i = 0; i < target.byteSize() / 2; i++) {
      if (i % BLOCK == 0 && random.nextInt(4) == 0) {
        profile = random.nextInt(7);
        exponent = random.nextInt(90, 160);
      }
      int bits = random.nextInt(0x1_0000);
      int element =
          switch (profile) {
            case 0 -> bits & 0x83FF | 0x3C00; // around 1
            case 1 -> bits & 0x81FF | 0x3C00; // below 1
            case 2 -> bits & 0x807F | exponent << 7; // one binade
            case 3 -> random.nextInt(20) == 0 ? bits & 0xBF7F : 0; // mostly zero
            case 4 -> exponent << 7 | 0x15; // one value
            case 5 -> bits & 0xBF7F; // below 1, of all magnitudes
            default -> bits & 0x807F; // subnormal
          };
      target.set(ValueLayout.JAVA_SHORT_UNALIGNED, 2L * i, (short) element);
    }
  }
}
