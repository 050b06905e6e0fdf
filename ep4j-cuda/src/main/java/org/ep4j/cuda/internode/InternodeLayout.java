package org.ep4j.cuda.internode;

/**
 * Offsets in the receive memory of each rank, which ranks of other nodes write into, and in the
 * outgoing memory, which the transport reads if kernels cannot write to the destination; and the
 * numbers of the counters. Receive memory: counts, low-latency part, rings. Outgoing memory:
 * counts, low-latency staging, rings. {@code kernels/internode/internode.cuh} documents the
 * protocol.
 *
 * <p>Everything is equal on all ranks, except the number of rings and therefore the lengths.
 */
final class InternodeLayout {
  /**
   * Slots of a ring, a power of two: several times the slots that warps fill and empty at once,
   * because both sides learn with a delay that a slot is full or free. With half as many slots,
   * combines took a quarter longer.
   */
  static final int SLOTS = 128;

  private static final long PAGE = 4096;

  /** Large enough for separate pages, which can be locked: see {@code PageArena}. */
  private static final long LEAST = 2 << 20;

  /** Bytes of a slot, unless a single token needs more: see {@code InternodeChunks}. */
  private static final long SLOT = 132 << 10;

  private final int ranks;
  private final InternodeSizes sizes;

  /** Bytes of a slot. */
  final long slotBytes;

  /** Offset of the low-latency part. */
  final long lowLatency;

  /** Offset of the first ring in receive memory. */
  final long rings;

  /** Offset of the low-latency staging in outgoing memory. */
  final long staging;

  /** Offset of the first ring in outgoing memory. */
  final long outgoingRings;

  InternodeLayout(int ranks, InternodeSizes sizes) {
    this.ranks = ranks;
    this.sizes = sizes;
    slotBytes = sizes.countWords() == 0 ? 0 : page(Math.max(SLOT, sizes.tokenBytes()));
    lowLatency = page(ranks * countBytes());
    rings = lowLatency + page(sizes.lowLatencyBytes());
    staging = page(countBytes());
    outgoingRings = staging + page(sizes.stagingBytes());
  }

  private static long page(long bytes) {
    return Math.ceilDiv(bytes, PAGE) * PAGE;
  }

  private long countBytes() {
    return Math.ceilDiv(sizes.countWords() * Long.BYTES, 16) * 16;
  }

  /** Words between the counts of consecutive ranks. */
  long countStride() {
    return countBytes() / Long.BYTES;
  }

  /** Offset of the counts of {@code rank} in receive memory. */
  long counts(int rank) {
    return rank * countBytes();
  }

  /** Offset of the ring of a partner, relative to the first ring. */
  long ring(int place) {
    return (long) place * SLOTS * slotBytes;
  }

  long incomingBytes(int partners) {
    return Math.max(LEAST, rings + ring(partners));
  }

  long outgoingBytes(int partners) {
    return Math.max(LEAST, outgoingRings + ring(partners));
  }

  /** Counter of how often {@code rank}'s counts have been written. */
  int countsPublished(int rank) {
    return rank;
  }

  /** First of the counters of slots that a partner has filled. */
  int arrived(int place) {
    return ranks + 2 * place * SLOTS;
  }

  /** First of the counters of slots that a partner has emptied. */
  int credits(int place) {
    return ranks + (2 * place + 1) * SLOTS;
  }

  /** First counter of low latency, after those of {@code maxPartners} partners. */
  int firstLowLatency(int maxPartners) {
    return ranks + 2 * maxPartners * SLOTS;
  }

  /** First of the counters of {@link InternodeQuiesce}, one per rank. */
  int quiesce(int maxPartners) {
    return firstLowLatency(maxPartners) + sizes.lowLatencyCounters();
  }

  /** First of the counters of ranks that have closed, one per rank, after all others. */
  int closed(int maxPartners) {
    return quiesce(maxPartners) + ranks;
  }

  int counters(int maxPartners) {
    return closed(maxPartners) + ranks;
  }

  /**
   * Sizes of a rank's transport memory.
   *
   * @param partners partners of the rank
   * @param maxPartners largest number of partners of a rank
   */
  InternodeMemorySizes sizes(int partners, int maxPartners) {
    return new InternodeMemorySizes(
        incomingBytes(partners),
        outgoingBytes(partners),
        Math.max(slotBytes, sizes.lowLatencyPutBytes()),
        counters(maxPartners),
        quiesce(maxPartners),
        closed(maxPartners));
  }
}
