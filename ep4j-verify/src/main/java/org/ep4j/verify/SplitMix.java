package org.ep4j.verify;

/** The generator of {@code benchmarks/ROUTING.md} (splitmix64). Not thread-safe. */
final class SplitMix {
  private static final long GAMMA = 0x9E3779B97F4A7C15L;

  private long state;

  SplitMix(long state) {
    this.state = state;
  }

  static long mix(long z) {
    z = (z ^ (z >>> 30)) * 0xBF58476D1CE4E5B9L;
    z = (z ^ (z >>> 27)) * 0x94D049BB133111EBL;
    return z ^ (z >>> 31);
  }

  /** Start of the stream of one token, independent of all other tokens. */
  static long tokenState(long seed, int rank, long token) {
    return mix(seed ^ mix(((long) rank << 32 | token) + GAMMA));
  }

  void restart(long newState) {
    state = newState;
  }

  long next() {
    state += GAMMA;
    return mix(state);
  }

  /** From 0 to {@code n} - 1. */
  int below(int n) {
    return (int) (((next() >>> 32) * n) >>> 32);
  }
}
