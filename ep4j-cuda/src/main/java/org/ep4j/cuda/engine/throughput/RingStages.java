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

  /** What a ring brings. */
  enum Kind {
    /** FLAT rows. The table holds the addresses of the rows and of the weights of each rank. */
    PULL(2 * Long.BYTES, 16, 5, VECTOR_BYTES),

    /**
     * EXPERT_MAJOR rows and sums that have travelled, which may be twice as long. The table holds
     * five words of each rank.
     */
    EXPERTS(5 * Integer.BYTES, 24, 4, 2 * VECTOR_BYTES);

    private final int tableBytesOfRank;

    /** Description of a job. */
    private final int jobBytes;

    /** Vectors of 16 bytes of a slot that a thread reads. */
    private final int vectors;

    /** Unit of the length of a piece. */
    private final int unit;

    Kind(int tableBytesOfRank, int jobBytes, int vectors, int unit) {
      this.tableBytesOfRank = tableBytesOfRank;
      this.jobBytes = jobBytes;
      this.vectors = vectors;
      this.unit = unit;
    }
  }

  /** Caches the division of the last call, so that a warm call allocates nothing. */
  static final class Cache {
    private final Kind kind;
    private final int sharedBytes;
    private final int ranks;
    private RingStages last = new RingStages(0, 0, 0, 0);
    private long lastRowBytes = -1;

    /** See {@link RingStages#of}. */
    Cache(Kind kind, int sharedBytes, int ranks) {
      this.kind = kind;
      this.sharedBytes = sharedBytes;
      this.ranks = ranks;
    }

    RingStages of(long rowBytes) {
      if (lastRowBytes != rowBytes) {
        last = RingStages.of(kind, sharedBytes, ranks, rowBytes);
        lastRowBytes = rowBytes;
      }
      return last;
    }
  }

  /**
   * @param sharedBytes shared memory available to a block
   * @param rowBytes length of the longest row that the ring brings
   */
  static RingStages of(Kind kind, int sharedBytes, int ranks, long rowBytes) {
    int longest = kind.vectors * ADDING_THREADS * VECTOR_BYTES;
    int table = align(ranks * kind.tableBytesOfRank);
    long equal = Stages.pieceOf(Math.max(rowBytes, kind.unit), longest);
    int piece = (int) Math.ceilDiv(equal, kind.unit) * kind.unit;
    int room = (sharedBytes - table) / PIPELINES / ALIGNMENT * ALIGNMENT - LIST_BYTES;
    int slotBytes = piece + BARRIER_BYTES + kind.jobBytes;
    int slots = Math.min(MAX_SLOTS, room / slotBytes);
    int ring = align(slots * slotBytes + LIST_BYTES);
    return new RingStages(table, slots, piece, table + PIPELINES * ring);
  }

  private static int align(int bytes) {
    return Math.ceilDiv(bytes, ALIGNMENT) * ALIGNMENT;
  }
}
