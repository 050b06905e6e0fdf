package org.ep4j.cuda.engine.throughput;

import org.ep4j.cuda.engine.launch.Kernels;

/**
 * Division of a block's shared memory in a combine with bulk loads: a table, and for each pipeline
 * a ring of slots and the rows of a token. The numbers are those of {@code row_ring.cuh}, {@code
 * pull_rows.cuh} and {@code expert_jobs.cuh}.
 *
 * @param tableBytes bytes of the table, a multiple of 128
 * @param slots number of slots of a pipeline
 * @param slotBytes bytes of a slot: a row, or an equal piece of a long one
 * @param bytes total shared memory
 */
record RingStages(int tableBytes, int slots, int slotBytes, int bytes) {
  private static final int ALIGNMENT = 128;

  /** Two barriers. */
  private static final int BARRIER_BYTES = 2 * Long.BYTES;

  /** Rows of a token and two biases, and their weights. */
  private static final int LIST_BYTES = (64 + 2) * (Long.BYTES + Float.BYTES);

  private static final int PIPELINES = 2;

  /** Of a pipeline: all warps but the first, which brings rows. */
  private static final int ADDING_THREADS = Kernels.THREADS / PIPELINES - 32;

  private static final int VECTOR_BYTES = 16;

  /** More do not help: the pieces on their way are short then, and many. */
  private static final int MAX_SLOTS = 64;

  /**
   * Rows of one kind of combine.
   *
   * @param tableBytesOfRank what the table holds of a rank
   * @param jobBytes description of a job
   * @param vectors of 16 bytes of a slot that a thread adds
   */
  private record Kind(int tableBytesOfRank, int jobBytes, int vectors) {}

  /** The table holds the addresses of the rows and of the weights of each rank. */
  private static final Kind PULL = new Kind(2 * Long.BYTES, 16, 5);

  /** The table holds five words of each rank. */
  private static final Kind EXPERTS = new Kind(5 * Integer.BYTES, 24, 4);

  /** Caches the division of the last call, so that a warm call allocates nothing. */
  static final class Cache {
    private final int sharedBytes;
    private final int ranks;
    private final boolean experts;
    private RingStages last = new RingStages(0, 0, 0, 0);
    private long lastRowBytes = -1;

    /**
     * @param sharedBytes shared memory available to a block
     * @param experts of a combine of EXPERT_MAJOR rows; else one that pulls FLAT rows
     */
    Cache(int sharedBytes, int ranks, boolean experts) {
      this.sharedBytes = sharedBytes;
      this.ranks = ranks;
      this.experts = experts;
    }

    /**
     * @param rowBytes length of the longest row that the ring carries
     */
    RingStages of(long rowBytes) {
      if (lastRowBytes != rowBytes) {
        last =
            experts
                ? ofExperts(sharedBytes, ranks, rowBytes)
                : ofPull(sharedBytes, ranks, rowBytes);
        lastRowBytes = rowBytes;
      }
      return last;
    }
  }

  static RingStages ofPull(int sharedBytes, int ranks, long rowBytes) {
    return of(PULL, sharedBytes, ranks, rowBytes, VECTOR_BYTES);
  }

  /**
   * @param rowBytes length of a sum as it travels
   */
  static RingStages ofExperts(int sharedBytes, int ranks, long rowBytes) {
    // A piece of a sum that travels as float32 is twice as long as that of a row.
    return of(EXPERTS, sharedBytes, ranks, rowBytes, 2 * VECTOR_BYTES);
  }

  private static RingStages of(Kind kind, int sharedBytes, int ranks, long rowBytes, int unit) {
    int longest = kind.vectors * ADDING_THREADS * VECTOR_BYTES;
    int table = align(ranks * kind.tableBytesOfRank);
    int piece = (int) Math.ceilDiv(Stages.pieceOf(Math.max(rowBytes, unit), longest), unit) * unit;
    int room = (sharedBytes - table) / PIPELINES / ALIGNMENT * ALIGNMENT - LIST_BYTES;
    int slotBytes = piece + BARRIER_BYTES + kind.jobBytes;
    int slots = Math.min(MAX_SLOTS, room / slotBytes);
    return new RingStages(
        table, slots, piece, table + PIPELINES * align(slots * slotBytes + LIST_BYTES));
  }

  private static int align(int bytes) {
    return Math.ceilDiv(bytes, ALIGNMENT) * ALIGNMENT;
  }
}
