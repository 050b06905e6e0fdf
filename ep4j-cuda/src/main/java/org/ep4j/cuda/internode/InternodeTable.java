package org.ep4j.cuda.internode;

import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import org.ep4j.cuda.driver.CudaDevice;
import org.ep4j.cuda.driver.DeviceMemory;
import org.ep4j.cuda.struct.InternodePartner;
import org.ep4j.cuda.struct.InternodeWorld;
import org.ep4j.engine.Nodes;
import org.ep4j.engine.Rails;

/**
 * {@link InternodeWorld} and everything that it refers to, on the device. Addresses do not change
 * when ranks are lost; only the number of partners decreases.
 */
final class InternodeTable implements AutoCloseable {
  private static final long WORLD = new InternodeWorld().bytes();
  private static final long PARTNER = new InternodePartner().bytes();

  /** Alignment of {@code ObservedCounters}: a word on its own line, then one per slot. */
  private static final long SEEN_ALIGNMENT = 128;

  private static final long SEEN = SEEN_ALIGNMENT + InternodeLayout.SLOTS * (long) Long.BYTES;

  /** As in {@code kernels/common/protocol.cuh}: node of a dead rank. */
  private static final int NO_NODE = -1;

  private final InternodeLink link;
  private final InternodeLayout layout;
  private final Nodes nodes;
  private final int rank;

  /** Capacity in partners. */
  private final int maxPartners;

  private final DeviceMemory memory;

  // Offsets after the world.
  private final long partnerTable = WORLD;
  private final long nodeOf;
  private final long railTo;
  private final long remoteCounts;
  private final long sent;
  private final long taken;
  private final long publishedRounds;
  private final long seen;

  /**
   * Writes the table with all ranks.
   *
   * @param maxPartners largest number of partners
   */
  InternodeTable(
      CudaDevice device,
      InternodeLink link,
      InternodeLayout layout,
      Nodes nodes,
      int rank,
      int maxPartners) {
    this.link = link;
    this.layout = layout;
    this.nodes = nodes;
    this.rank = rank;
    this.maxPartners = maxPartners;
    nodeOf = partnerTable + maxPartners * PARTNER;
    railTo = align(nodeOf + (long) nodes.ranks() * Integer.BYTES);
    remoteCounts = align(railTo + (long) nodes.count() * Integer.BYTES);
    sent = remoteCounts + (long) nodes.ranks() * Long.BYTES;
    taken = sent + (long) maxPartners * Long.BYTES;
    publishedRounds = taken + (long) maxPartners * Long.BYTES;
    seen = align(publishedRounds + Long.BYTES, SEEN_ALIGNMENT);
    memory = DeviceMemory.allocate(device, seen + 2L * maxPartners * SEEN);
    boolean complete = false;
    try {
      write(new boolean[nodes.ranks()]);
      complete = true;
    } finally {
      if (!complete) {
        memory.close();
      }
    }
  }

  /**
   * Resets the table to the state before the first transfer, with the current transport. No kernel
   * runs.
   *
   * @param gone dead ranks; a node is lost as a whole, since otherwise the rails would differ from
   *     the memory layout
   */
  void write(boolean[] gone) {
    Rails rails = new Rails(nodes, gone);
    int[] partners = rails.partners(rank);
    try (Arena arena = Arena.ofConfined()) {
      MemorySegment image = arena.allocate(memory.bytes(), Long.BYTES);
      InternodeWorld world = new InternodeWorld();
      world.placeIn(image);
      writeWorld(world, partners.length);
      InternodePartner partner = new InternodePartner();
      for (int place = 0; place < partners.length; place++) {
        partner.placeIn(image.asSlice(partnerTable + place * PARTNER, PARTNER));
        writePartner(partner, rails, partners[place], place);
      }
      writeLists(image, rails, gone);
      memory.copyFrom(0, image);
    }
  }

  private static long align(long offset) {
    return align(offset, Long.BYTES);
  }

  private static long align(long offset, long unit) {
    return Math.ceilDiv(offset, unit) * unit;
  }

  long address() {
    return memory.address();
  }

  /** Number of partners with all ranks. */
  int partners() {
    return maxPartners;
  }

  /** Device address of the node of each rank. */
  long nodeOf() {
    return memory.address() + nodeOf;
  }

  private long counter(int number) {
    return link.counters() + (long) number * Long.BYTES;
  }

  private void writeWorld(InternodeWorld world, int partners) {
    long base = memory.address();
    int node = nodes.of(rank);
    world.first.set(nodes.first(node));
    world.end.set(nodes.end(node));
    world.nodes.set(nodes.count());
    world.node.set(node);
    world.nodeOf.set(base + nodeOf);
    world.partners.set(partners);
    world.partner.set(base + partnerTable);
    world.railTo.set(base + railTo);
    world.slots.set(InternodeLayout.SLOTS);
    world.slotBytes.set(layout.slotBytes);
    world.mapped.set(!link.puts());
    world.lanes.set(link.lanesPerRing());
    world.sent.set(base + sent);
    world.taken.set(base + taken);
    world.countsPublished.set(counter(layout.countsPublished(0)));
    world.remoteCountsPublished.set(layout.countsPublished(rank));
    world.publishedRounds.set(base + publishedRounds);
    world.countsOut.set(link.outgoing());
    world.countsSource.set(link.outgoingSource());
    world.countsTarget.set(layout.counts(rank));
    world.remoteCounts.set(base + remoteCounts);
    world.countsIn.set(link.incoming() + layout.counts(0));
    world.countStride.set(layout.countStride());
    world.seen.set(base + seen);
    link.describe(world.transport);
  }

  private void writePartner(InternodePartner at, Rails rails, int partner, int place) {
    int node = nodes.of(partner);
    int remotePlace = rails.place(partner, rank);
    long target = layout.rings + layout.ring(remotePlace);
    long out = layout.outgoingRings + layout.ring(place);
    at.rank.set(partner);
    at.node.set(node);
    at.isReceiver.set(rails.rail(rank, node) == partner);
    at.isSender.set(rails.rail(partner, nodes.of(rank)) == rank);
    at.out.set(link.puts() ? link.outgoing() + out : link.incoming(partner) + target);
    at.outSource.set(link.outgoingSource() + out);
    at.outTarget.set(target);
    at.in.set(link.incoming() + layout.rings + layout.ring(place));
    at.arrived.set(counter(layout.arrived(place)));
    at.credits.set(counter(layout.credits(place)));
    at.remoteArrived.set(layout.arrived(remotePlace));
    at.remoteCredits.set(layout.credits(remotePlace));
  }

  private void writeLists(MemorySegment image, Rails rails, boolean[] gone) {
    for (int r = 0; r < nodes.ranks(); r++) {
      int node = gone[r] ? NO_NODE : nodes.of(r);
      image.set(ValueLayout.JAVA_INT, nodeOf + (long) r * Integer.BYTES, node);
      long incoming = link.incoming(r);
      image.set(
          ValueLayout.JAVA_LONG,
          remoteCounts + (long) r * Long.BYTES,
          incoming == 0 ? 0 : incoming + layout.counts(rank));
    }
    for (int node = 0; node < nodes.count(); node++) {
      // Undefined for ranks of this node and dead ranks.
      int place = Math.max(0, rails.place(rank, rails.rail(rank, node)));
      image.set(ValueLayout.JAVA_INT, railTo + (long) node * Integer.BYTES, place);
    }
  }

  @Override
  public void close() {
    memory.close();
  }
}
