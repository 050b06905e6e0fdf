package org.ep4j.cuda.engine.throughput;

import org.ep4j.CombineOptions;
import org.ep4j.cuda.engine.launch.Kernels;
import org.ep4j.error.ErrorCode;
import org.ep4j.error.IllegalUseException;
import org.jspecify.annotations.Nullable;

/**
 * Division of a block's shared memory: stages of the warps that move rows, metadata of the row of a
 * stage, barriers, and words that depend on the kernel. The numbers are those of {@code rows.cuh}.
 *
 * @param warps warps that move rows
 * @param stageBytes bytes of a stage: a row, or a piece of a long one
 * @param bytes total shared memory
 */
record Stages(int warps, int stageBytes, int bytes) {
  private static final int STAGES = 3;
  private static final int BARRIER_BYTES = 8;

  /** Barriers of a warp. */
  static final int BARRIERS_OF_WARP = STAGES * BARRIER_BYTES;

  /** Rows of a token that a warp of a combine lists, as in {@code combine_parameters.cuh}. */
  private static final long MAX_ROWS = 64;

  /** Shared memory of a combine for the addresses of these rows. */
  static final long ROW_LISTS = Kernels.WARPS * MAX_ROWS * Long.BYTES;

  private static final long WEIGHT_LISTS = Kernels.WARPS * MAX_ROWS * Float.BYTES;

  /** Longer rows are moved in pieces, so that several warps have stages. */
  private static final int LONGEST_PIECE = 16384;

  private static final int UNIT = 16;

  /** Caches the division of the last call, so that a warm call allocates nothing. */
  static final class Cache {
    private final int sharedBytes;
    private final long wordBytes;
    private @Nullable Stages last;
    private long lastRowBytes;
    private long lastMetadataBytes;
    private int lastMaxWarps;

    /** See {@link Stages#of}. */
    Cache(int sharedBytes, long wordBytes) {
      this.sharedBytes = sharedBytes;
      this.wordBytes = wordBytes;
    }

    Stages of(long rowBytes, long metadataBytes, int maxWarps) {
      Stages known = last;
      if (known == null
          || lastRowBytes != rowBytes
          || lastMetadataBytes != metadataBytes
          || lastMaxWarps != maxWarps) {
        known = Stages.of(sharedBytes, wordBytes, rowBytes, metadataBytes, maxWarps);
        last = known;
        lastRowBytes = rowBytes;
        lastMetadataBytes = metadataBytes;
        lastMaxWarps = maxWarps;
      }
      return known;
    }
  }

  /**
   * @param sharedBytes shared memory available to a block
   * @param wordBytes part of it for the kernel's words
   * @param rowBytes length of a row
   * @param metadataBytes metadata of a row, a multiple of 16
   * @param maxWarps largest number of warps that move rows
   */
  static Stages of(
      int sharedBytes, long wordBytes, long rowBytes, long metadataBytes, int maxWarps) {
    long piece = Math.ceilDiv(pieceOf(Math.max(rowBytes, UNIT), LONGEST_PIECE), UNIT) * UNIT;
    long room = sharedBytes - wordBytes;
    long others = metadataBytes + BARRIER_BYTES;
    long warp = STAGES * (piece + others);
    if (room < warp) {
      piece = (room / STAGES - others) / UNIT * UNIT;
      warp = STAGES * (piece + others);
    }
    if (piece < UNIT) {
      throw new IllegalUseException(
          ErrorCode.CUDA_EXPERT_COUNTERS,
          "the counters of the kernel need "
              + wordBytes
              + " of "
              + sharedBytes
              + " bytes of shared memory: use fewer experts or ranks");
    }
    int warps = (int) Math.min(maxWarps, room / warp);
    return new Stages(warps, (int) piece, (int) (warps * warp + wordBytes));
  }

  /** Shared memory of a combine for the weights of the rows that its warps list. */
  static int weightLists(CombineOptions options) {
    return options.applyWeights() ? (int) WEIGHT_LISTS : 0;
  }

  /** The largest of the equal pieces of a row, none longer than {@code longest}. */
  static long pieceOf(long rowBytes, long longest) {
    return Math.ceilDiv(rowBytes, Math.ceilDiv(rowBytes, longest));
  }
}
