package org.ep4j.cuda.engine.throughput;

import org.ep4j.CombineOptions;
import org.ep4j.cuda.engine.launch.Kernels;
import org.ep4j.error.ErrorCode;
import org.ep4j.error.IllegalUseException;

/**
 * Shared memory of a block of a combine between nodes.
 *
 * @param sharedBytes shared memory available to a block
 * @param words that of all warps except their stages
 * @param tableBytes in the order of experts: the table of rows, and the schedule
 * @param listBytes in the order of experts: a summing warp, except its load stage
 */
record InternodeCombineMemory(int sharedBytes, long words, long tableBytes, long listBytes) {
  /** Load stage of a summing warp, {@code LoadStage} in internode_load_stage.cuh. */
  static final long LOAD_STAGE = 7168;

  /** Of a returning warp, as {@code StoreStages} in internode_return.cuh. */
  private static final long STORE_STAGES = 8192;

  private static final long LOAD_STAGE_BARRIER = 8;

  /**
   * A load stage in the order of experts, at most: no warp pushes, and all rows of a token pass
   * through it.
   */
  private static final long EXPERT_LOAD_STAGE = 16384;

  /** The same at least: a unit of each row of a token, see {@code LoadStage::piece}. */
  private static final long LEAST_LOAD_STAGE = 2048;

  /** Alignment of a load stage. */
  private static final long LINE = 128;

  /** Rows of a token that a warp lists with their weights, as in combine_parameters.cuh. */
  private static final long MAX_ROWS = 64;

  /**
   * Words of a rank, of a partner, and of a pair of return buffer and rank of the node: see
   * internode_return_layout.cuh.
   */
  private static final long RANK_WORDS = 6;

  private static final long PARTNER_WORDS = 3;
  private static final long SECTION_WORDS = 2;

  /**
   * @param nodeRanks ranks of this node
   * @param partners ranks of other nodes that may exchange tokens with this rank
   */
  static InternodeCombineMemory of(
      int sharedBytes, int ranks, int nodes, int nodeRanks, int partners) {
    long ofNodes = (long) nodes * (Long.BYTES + Integer.BYTES);
    long schedule = PARTNER_WORDS * partners + 2;
    long returning = RANK_WORDS * ranks + SECTION_WORDS * (1 + partners) * nodeRanks;
    long words =
        Stages.ROW_LISTS + Kernels.WARPS * ofNodes + Integer.BYTES * (schedule + returning);
    long table = Math.ceilDiv(2L * ranks * Long.BYTES + schedule * Integer.BYTES, LINE) * LINE;
    long list = LOAD_STAGE_BARRIER + MAX_ROWS * (Long.BYTES + Float.BYTES) + ofNodes;
    return new InternodeCombineMemory(sharedBytes, words, table, list);
  }

  /** Bytes except those of pushing warps. */
  long bytes(int returning, int summing) {
    return words + returning * STORE_STAGES + summing * (LOAD_STAGE + LOAD_STAGE_BARRIER);
  }

  /** All bytes for rows of EXPERT_MAJOR, which are pushed without stages. */
  int grouped(int pushing, int returning, int summing, CombineOptions options) {
    return available(
        bytes(returning, summing)
            + (long) pushing * Stages.BARRIERS_OF_WARP
            + Stages.weightLists(options));
  }

  /** Bytes of a load stage in the order of experts. */
  long loadStage(int returning, int summing) {
    long fixed = fixed(returning, summing);
    available(fixed + summing * LEAST_LOAD_STAGE);
    return Math.min(EXPERT_LOAD_STAGE, (sharedBytes - fixed) / summing / LINE * LINE);
  }

  /** All bytes in the order of experts. */
  int byExperts(int returning, int summing) {
    return (int) (fixed(returning, summing) + summing * loadStage(returning, summing));
  }

  private long fixed(int returning, int summing) {
    return tableBytes + returning * STORE_STAGES + summing * listBytes;
  }

  private int available(long bytes) {
    if (bytes > sharedBytes) {
      throw new IllegalUseException(
          ErrorCode.CUDA_EXPERT_COUNTERS,
          "the combine needs "
              + bytes
              + " of "
              + sharedBytes
              + " bytes of shared memory: use fewer ranks or nodes");
    }
    return (int) bytes;
  }
}
