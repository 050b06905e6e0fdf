package org.ep4j.cuda.internode;

import org.ep4j.cuda.struct.InternodePartner;
import org.ep4j.cuda.struct.InternodeWorld;
import org.ep4j.engine.world.Nodes;

/**
 * Offsets in the device memory of {@link InternodeTable}: the world, then these. {@code
 * kernels/internode/internode.cuh} documents the words.
 */
final class InternodeTableLayout {
  static final long PARTNER = new InternodePartner().bytes();

  /** Alignment of {@code ObservedCounters}: a word on its own line, then one per slot. */
  private static final long SEEN_ALIGNMENT = 128;

  private static final long SEEN = SEEN_ALIGNMENT + InternodeLayout.SLOTS * (long) Long.BYTES;

  final long partnerTable = new InternodeWorld().bytes();
  final long nodeOf;
  final long railTo;
  final long remoteCounts;
  final long sent;
  final long taken;
  final long publishedRounds;
  final long seen;

  /** Bytes in all. */
  final long bytes;

  /**
   * @param maxPartners largest number of partners
   */
  InternodeTableLayout(Nodes nodes, int maxPartners) {
    nodeOf = partnerTable + maxPartners * PARTNER;
    railTo = align(nodeOf + (long) nodes.ranks() * Integer.BYTES, Long.BYTES);
    remoteCounts = align(railTo + (long) nodes.count() * Integer.BYTES, Long.BYTES);
    sent = remoteCounts + (long) nodes.ranks() * Long.BYTES;
    taken = sent + (long) maxPartners * Long.BYTES;
    publishedRounds = taken + (long) maxPartners * Long.BYTES;
    seen = align(publishedRounds + Long.BYTES, SEEN_ALIGNMENT);
    bytes = seen + 2L * maxPartners * SEEN;
  }

  private static long align(long offset, long unit) {
    return Math.ceilDiv(offset, unit) * unit;
  }
}
