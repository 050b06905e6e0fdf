package org.ep4j.benchmarks;

import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import org.ep4j.routing.Routing;
import org.ep4j.tensor.DType;
import org.ep4j.tensor.Tensor;

/** Inputs as {@code benchmarks/ROUTING.md} describes them. */
final class BenchmarkInputs {
  private static final long GAMMA = 0x9E3779B97F4A7C15L;
  private static final long PAGE = 4096;

  private BenchmarkInputs() {}

  /** BF16 rows of small values. */
  static Tensor rows(Arena arena, int tokens, int hidden) {
    MemorySegment rows = arena.allocate(2L * tokens * hidden, PAGE);
    for (long i = 0; i < (long) tokens * hidden; i++) {
      rows.setAtIndex(ValueLayout.JAVA_SHORT, i, (short) (0x3f80 + i % 64));
    }
    return Tensor.of(rows, DType.BF16, tokens, hidden);
  }

  /** Experts drawn uniformly. */
  static Routing uniform(Arena arena, long seed, int rank, int tokens, int experts, int topK) {
    MemorySegment ids = arena.allocate(8L * tokens * topK, PAGE);
    MemorySegment weights = arena.allocate(4L * tokens * topK, PAGE);
    for (int t = 0; t < tokens; t++) {
      Stream stream = new Stream(mix(seed ^ mix(((long) rank << 32 | t) + GAMMA)));
      long at = (long) t * topK;
      for (int k = 0; k < topK; ) {
        int expert = stream.below(experts);
        if (!contains(ids, at, k, expert)) {
          ids.setAtIndex(ValueLayout.JAVA_LONG, at + k++, expert);
        }
      }
      for (int k = 0; k < topK; k++) {
        weights.setAtIndex(ValueLayout.JAVA_FLOAT, at + k, ((stream.next() >>> 40) + 1) * 0x1p-24f);
      }
    }
    return Routing.of(
        Tensor.of(ids, DType.INT64, tokens, topK), Tensor.of(weights, DType.FP32, tokens, topK));
  }

  private static boolean contains(MemorySegment ids, long from, int count, int expert) {
    for (int k = 0; k < count; k++) {
      if (ids.getAtIndex(ValueLayout.JAVA_LONG, from + k) == expert) {
        return true;
      }
    }
    return false;
  }

  private static long mix(long z) {
    z = (z ^ (z >>> 30)) * 0xBF58476D1CE4E5B9L;
    z = (z ^ (z >>> 27)) * 0x94D049BB133111EBL;
    return z ^ (z >>> 31);
  }

  private static final class Stream {
    private long state;

    Stream(long state) {
      this.state = state;
    }

    long next() {
      state += GAMMA;
      return mix(state);
    }

    int below(int n) {
      return (int) (((next() >>> 32) * n) >>> 32);
    }
  }
}
