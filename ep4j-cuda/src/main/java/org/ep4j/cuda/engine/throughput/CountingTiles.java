package org.ep4j.cuda.engine.throughput;

import org.ep4j.cuda.engine.launch.Kernels;
import org.ep4j.error.ErrorCode;
import org.ep4j.error.InvalidArgumentException;

/**
 * Warps that count tokens for EXPERT_MAJOR.
 *
 * @param warps number of warps
 * @param bytes shared memory of a block that counts, including the kernel's words
 */
record CountingTiles(int warps, int bytes) {
  /**
   * The largest number of warps whose counters fit.
   *
   * @param sharedBytes shared memory available to a block
   * @param wordBytes part of it for the kernel's words
   */
  static CountingTiles of(int sharedBytes, long wordBytes, int ranks, int experts) {
    int warps = Kernels.WARPS;
    while (wordBytes + tileBytes(ranks + experts, warps) > sharedBytes) {
      if (warps == 1) {
        throw new InvalidArgumentException(
            ErrorCode.CUDA_EXPERT_COUNTERS,
            "experts",
            String.valueOf(experts),
            "few enough that their counters fit into the shared memory of a block",
            "use fewer experts or more ranks");
      }
      warps /= 2;
    }
    return new CountingTiles(warps, (int) (wordBytes + tileBytes(ranks + experts, warps)));
  }

  /** Words of a tile per key, as in tiles.cuh. */
  static long words(int warps) {
    return 1 + 2L * warps;
  }

  private static long tileBytes(int keys, int warps) {
    return keys * words(warps) * Integer.BYTES;
  }
}
