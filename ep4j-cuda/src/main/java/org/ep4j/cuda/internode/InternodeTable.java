package org.ep4j.cuda.internode;

import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import org.ep4j.cuda.driver.CudaDevice;
import org.ep4j.cuda.driver.DeviceMemory;
import org.ep4j.cuda.struct.InternodePartner;
import org.ep4j.cuda.struct.InternodeWorld;
import org.ep4j.engine.world.Nodes;
import org.ep4j.engine.world.Rails;

/**
 * {@link InternodeWorld} and everything that it refers to, on the device. The table stays where it
 * is when ranks are lost or return; only the number of partners changes, up to the capacity.
 */
final class InternodeTable implements AutoCloseable {
  /** As in {@code kernels/common/protocol.cuh}: node of a dead rank. */
  private static final int NO_NODE = -1;

  private InternodeLink link;
  private final InternodeLayout layout;
  private final Nodes nodes;
  private final int rank;

  private final boolean usesRails;

  /** Capacity in partners. */
  private final int maxPartners;

  private final DeviceMemory memory;

  private final InternodeTableLayout at;

  /**
   * Writes the table with all ranks.
   *
   * @param maxPartners largest number of partners, also after a loss
   * @param usesRails whether ranks exchange tokens by rails; else this rank gets no partners
   */
  InternodeTable(
      CudaDevice device,
      InternodeLink link,
      InternodeLayout layout,
      Nodes nodes,
      int rank,
      int maxPartners,
      boolean usesRails) {
    this.usesRails = usesRails;
    this.link = link;
    this.layout = layout;
    this.nodes = nodes;
    this.rank = rank;
    this.maxPartners = maxPartners;
    at = new InternodeTableLayout(nodes, maxPartners);
    memory = DeviceMemory.allocate(device, at.bytes);
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
   * @param gone dead ranks; the rails of the others fit: see {@link RailRoom}
   */
  void write(boolean[] gone) {
    Rails rails = new Rails(nodes, gone);
    int[] partners = usesRails ? rails.partners(rank) : new int[0];
    try (Arena arena = Arena.ofConfined()) {
      MemorySegment image = arena.allocate(memory.bytes(), Long.BYTES);
      InternodeWorld world = new InternodeWorld();
      world.placeIn(image);
      writeWorld(world, partners.length);
      InternodePartner partner = new InternodePartner();
      for (int place = 0; place < partners.length; place++) {
        partner.placeIn(
            image.asSlice(
                at.partnerTable + place * InternodeTableLayout.PARTNER,
                InternodeTableLayout.PARTNER));
        writePartner(partner, rails, partners[place], place);
      }
      writeLists(image, rails, gone);
      memory.copyFrom(0, image);
    }
  }

  /** Replaces the transport; {@link #write} follows. */
  void connect(InternodeLink fresh) {
    link = fresh;
  }

  long address() {
    return memory.address();
  }

  /** Capacity in partners. */
  int partners() {
    return maxPartners;
  }

  /** Device address of the node of each rank. */
  long nodeOf() {
    return memory.address() + at.nodeOf;
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
    world.nodeOf.set(base + at.nodeOf);
    world.partners.set(partners);
    world.partner.set(base + at.partnerTable);
    world.railTo.set(base + at.railTo);
    world.slots.set(InternodeLayout.SLOTS);
    world.slotBytes.set(layout.slotBytes);
    world.mapped.set(!link.puts());
    world.lanes.set(link.lanesPerRing());
    world.sent.set(base + at.sent);
    world.taken.set(base + at.taken);
    world.countsPublished.set(counter(layout.countsPublished(0)));
    world.remoteCountsPublished.set(layout.countsPublished(rank));
    world.publishedRounds.set(base + at.publishedRounds);
    world.countsOut.set(link.outgoing());
    world.countsSource.set(link.outgoingSource());
    world.countsTarget.set(layout.counts(rank));
    world.remoteCounts.set(base + at.remoteCounts);
    world.countsIn.set(link.incoming() + layout.counts(0));
    world.countStride.set(layout.countStride());
    world.seen.set(base + at.seen);
    link.describe(world.transport);
  }

  private void writePartner(InternodePartner to, Rails rails, int partner, int place) {
    int node = nodes.of(partner);
    int remotePlace = rails.place(partner, rank);
    long target = layout.rings + layout.ring(remotePlace);
    long out = layout.outgoingRings + layout.ring(place);
    to.rank.set(partner);
    to.node.set(node);
    to.isReceiver.set(rails.rail(rank, node) == partner);
    to.isSender.set(rails.rail(partner, nodes.of(rank)) == rank);
    to.out.set(link.puts() ? link.outgoing() + out : link.incoming(partner) + target);
    to.outSource.set(link.outgoingSource() + out);
    to.outTarget.set(target);
    to.in.set(link.incoming() + layout.rings + layout.ring(place));
    to.arrived.set(counter(layout.arrived(place)));
    to.credits.set(counter(layout.credits(place)));
    to.remoteArrived.set(layout.arrived(remotePlace));
    to.remoteCredits.set(layout.credits(remotePlace));
  }

  private void writeLists(MemorySegment image, Rails rails, boolean[] gone) {
    for (int r = 0; r < nodes.ranks(); r++) {
      int node = gone[r] ? NO_NODE : nodes.of(r);
      image.set(ValueLayout.JAVA_INT, at.nodeOf + (long) r * Integer.BYTES, node);
      long incoming = link.incoming(r);
      image.set(
          ValueLayout.JAVA_LONG,
          at.remoteCounts + (long) r * Long.BYTES,
          incoming == 0 ? 0 : incoming + layout.counts(rank));
    }
    for (int node = 0; node < nodes.count(); node++) {
      // Undefined for ranks of this node and dead ranks.
      int place = Math.max(0, rails.place(rank, rails.rail(rank, node)));
      image.set(ValueLayout.JAVA_INT, at.railTo + (long) node * Integer.BYTES, place);
    }
  }

  @Override
  public void close() {
    memory.close();
  }
}
