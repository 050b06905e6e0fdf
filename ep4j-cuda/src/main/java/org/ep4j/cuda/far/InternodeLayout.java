package org.ep4j.cuda.far;

/**
 * Where things lie in the landing memory of each rank, which ranks of other nodes write into, and
 * in the outgoing memory, from which the wire carries what they cannot be given otherwise; and the
 * numbers of the counters. Landing memory: counts, part of low latency, rings. Outgoing memory:
 * counts, shadow of low latency, rings. The protocol stands in {@code kernels/internode.cuh}.
 *
 * <p>All but the number of rings, and so the lengths, is the same on all ranks.
 */
final class InternodeLayout {
  /**
   * Slots of a ring, a power of two: several times what warps fill and empty at a time, because it
   * takes a while until both sides know that a slot is filled or free. With half as many combines
   * took a quarter longer.
   */
  static final int SLOTS = 128;

  private static final long PAGE = 4096;

  /** Large enough for pages of its own, which can be locked: see {@code PageArena}. */
  private static final long LEAST = 2 << 20;

  /** Bytes of a slot, unless a single token needs more: see {@code InternodeChunks}. */
  private static final long SLOT = 132 << 10;

  private final int ranks;
  private final InternodeSizes sizes;

  /** Bytes of a slot. */
  final long slotBytes;

  /** Part of low latency. */
  final long lowLatency;

  /** First ring of landing memory. */
  final long rings;

  /** In outgoing memory: shadow of low latency. */
  final long staging;

  /** In outgoing memory: first ring. */
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

  /** Words from the counts of one rank to those of the next. */
  long countStride() {
    return countBytes() / Long.BYTES;
  }

  /** Counts of {@code rank} in landing memory. */
  long counts(int rank) {
    return rank * countBytes();
  }

  /** Ring of a partner from the first one on. */
  long ring(int place) {
    return (long) place * SLOTS * slotBytes;
  }

  long incomingBytes(int partners) {
    return Math.max(LEAST, rings + ring(partners));
  }

  long outgoingBytes(int partners) {
    return Math.max(LEAST, outgoingRings + ring(partners));
  }

  /** Counter: how often {@code rank}'s counts have been written. */
  int countsPublished(int rank) {
    return rank;
  }

  /** First of the counters of what a partner has filled. */
  int arrived(int place) {
    return ranks + 2 * place * SLOTS;
  }

  /** First of the counters of what a partner has emptied. */
  int credits(int place) {
    return ranks + (2 * place + 1) * SLOTS;
  }

  /** First counter of low latency, behind those of {@code maxPartners} partners. */
  int firstLowLatency(int maxPartners) {
    return ranks + 2 * maxPartners * SLOTS;
  }

  /**
   * First of the counters, one a rank, of what {@link InternodeQuiesce} tells, behind all others.
   */
  int quiesce(int maxPartners) {
    return firstLowLatency(maxPartners) + sizes.lowLatencyCounters();
  }

  int counters(int maxPartners) {
    return quiesce(maxPartners) + ranks;
  }
}
