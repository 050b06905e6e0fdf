package org.ep4j.cuda.struct;

/**
 * The ranks of other nodes and the memory shared with them, see {@code internode.cuh}. In device
 * memory, which no kernel writes.
 */
public final class InternodeWorld extends Struct {
  /** First rank of this node. */
  public final U64 first = u64("first");

  /** End of the ranks of this node. */
  public final U64 end = u64("end");

  public final U64 nodes = u64("nodes");
  public final U64 node = u64("node");

  /** [ranks] node of each rank; NO_NODE: the rank is missing. */
  public final Pointer nodeOf = pointer("const u32*", "node_of");

  public final U64 partners = u64("partners");

  /** Ascending by rank. */
  public final Pointer partner = pointer("const struct InternodePartner*", "partner");

  /** [nodes] partner that receives tokens for a node; undefined for this node. */
  public final Pointer railTo = pointer("const u32*", "rail_to");

  public final U64 slots = u64("slots");

  /** A multiple of 128. */
  public final U64 slotBytes = u64("slot_bytes");

  /** 1: kernels write the memory of other nodes themselves; 0: they submit puts. */
  public final U64 mapped = u64("mapped");

  /** Lanes of each ring's thread to each rank; library: 1. */
  public final U64 lanes = u64("lanes");

  /** [partners] slots filled in operations that ended. Writer: the last block only. */
  public final Pointer sent = pointer("u64*", "sent");

  /** [partners] slots emptied in operations that ended. Writer: the last block only. */
  public final Pointer taken = pointer("u64*", "taken");

  // Counts (see protocol.cuh) of ranks of other nodes.

  /** [ranks] counters. */
  public final Pointer countsPublished = pointer("const u64*", "counts_published");

  /** Number of this rank's counter {@code counts_published} at all other ranks. */
  public final U64 remoteCountsPublished = u64("remote_counts_published");

  /** Dispatches with counts that ended. Writer: the last block only. */
  public final Pointer publishedRounds = pointer("u64*", "published_rounds");

  /** Not mapped: this rank's words, one copy for all. */
  public final Pointer countsOut = pointer("u64*", "counts_out");

  /** Not mapped: offset of those words in the region of outgoing memory. */
  public final U64 countsSource = u64("counts_source");

  /** Not mapped: offset of those words in the landing memory of every other rank. */
  public final U64 countsTarget = u64("counts_target");

  /** Mapped: [ranks] destination of those words at each rank. */
  public final Pointer remoteCounts = pointer("u64* const*", "remote_counts");

  /** [ranks, count_stride] words of other ranks. */
  public final Pointer countsIn = pointer("const u64*", "counts_in");

  public final U64 countStride = u64("count_stride");

  /** [partners, 2] credits, then arrived; device memory. */
  public final Pointer seen = pointer("struct ObservedCounters*", "seen");

  public final InternodeTransport transport = nested(new InternodeTransport(), "transport");

  public InternodeWorld() {
    super("InternodeWorld");
  }
}
