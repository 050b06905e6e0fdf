package org.ep4j.cuda.engine.throughput;

import org.ep4j.cuda.engine.launch.Kernels;

/**
 * Division of a block's shared memory in a combine that pulls rows: addresses of all ranks' rows,
 * and for each pipeline a ring of slots and the rows of a token. The numbers are those of {@code
 * pull_rows.cuh}.
 *
 * @param tableBytes bytes of the addresses, a multiple of 128
 * @param slots number of slots of a pipeline
 * @param slotBytes bytes of a slot: a row, or an equal piece of a long one
 * @param bytes total shared memory
 */
record PullStages(int tableBytes, int slots, int slotBytes, int bytes) {
  /** Two addresses a rank. */
  private static final int RANK_BYTES = 2 * Long.BYTES;

  private static final int ALIGNMENT = 128;

  /** Two barriers and the description of a piece. */
  private static final int SLOT_EXTRA = 2 * Long.BYTES + 4 * Integer.BYTES;

  /** Rows of a token and two biases. */
  private static final int LIST_BYTES = (64 + 2) * Long.BYTES;

  private static final int PIPELINES = 2;

  /** Of a pipeline: all warps but the first, which brings rows. */
  private static final int ADDING_THREADS = Kernels.THREADS / PIPELINES - 32;

  private static final int VECTORS = 5;
  private static final int VECTOR_BYTES = 16;
  private static final int LONGEST_PIECE = VECTORS * ADDING_THREADS * VECTOR_BYTES;

  /** More do not help: the pieces on their way are short then, and many. */
  private static final int MAX_SLOTS = 64;

  static PullStages of(int sharedBytes, int ranks, long rowBytes) {
    int table = align(ranks * RANK_BYTES);
    int piece =
        (int)
                Math.ceilDiv(
                    Stages.pieceOf(Math.max(rowBytes, VECTOR_BYTES), LONGEST_PIECE), VECTOR_BYTES)
            * VECTOR_BYTES;
    int room = (sharedBytes - table) / PIPELINES / ALIGNMENT * ALIGNMENT - LIST_BYTES;
    int slots = Math.min(MAX_SLOTS, room / (piece + SLOT_EXTRA));
    int ring = align(slots * (piece + SLOT_EXTRA) + LIST_BYTES);
    return new PullStages(table, slots, piece, table + PIPELINES * ring);
  }

  private static int align(int bytes) {
    return Math.ceilDiv(bytes, ALIGNMENT) * ALIGNMENT;
  }
}
