package org.ep4j.plan.simulation;

/**
 * Rings between nodes: each pair of a source and a node has one at the receiving GPU.
 *
 * @param slots chunks that may be under way or not yet passed on; 0: no limit
 * @param creditMicros from the moment a chunk has been passed on until its sender may use the slot
 *     again, microseconds
 */
record Rings(int slots, double creditMicros) {
  /** What the CUDA engine reserves for a partner: 128 slots of 132 KiB. */
  private static final long RING_BYTES = 128L * 132 * 1024;

  /** The rings of the CUDA engine, whose credits travel as long as a small message. */
  static Rings usual(double chunkBytes, double hopMicros) {
    return new Rings((int) Math.max(1, Math.floor(RING_BYTES / chunkBytes)), hopMicros);
  }
}
