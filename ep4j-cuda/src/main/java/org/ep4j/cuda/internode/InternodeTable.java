package org.ep4j.cuda.internode;

import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import org.ep4j.cuda.driver.CudaDevice;
import org.ep4j.cuda.driver.DeviceMemory;
import org.ep4j.engine.Nodes;
import org.ep4j.engine.Rails;

/**
 * {@code InternodeWorld} of {@code kernels/internode/internode.cuh} and everything that it refers
 * to, on the device. Addresses do not change when ranks are lost; only the number of partners
 * decreases.
 */
final class InternodeTable implements AutoCloseable {
  private static final long WORLD =
      InternodeWorldField.TRANSPORT.ordinal() * (long) Long.BYTES + InternodeTransportField.BYTES;
  private static final long PARTNER = InternodePartnerField.values().length * (long) Long.BYTES;

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
      writeWorld(image, partners.length);
      for (int place = 0; place < partners.length; place++) {
        MemorySegment at = image.asSlice(partnerTable + place * PARTNER, PARTNER);
        writePartner(at, rails, partners[place], place);
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

  private static void set(MemorySegment image, Enum<?> field, long value) {
    image.setAtIndex(ValueLayout.JAVA_LONG, field.ordinal(), value);
  }

  private void writeWorld(MemorySegment image, int partners) {
    long base = memory.address();
    int node = nodes.of(rank);
    set(image, InternodeWorldField.FIRST, nodes.first(node));
    set(image, InternodeWorldField.END, nodes.end(node));
    set(image, InternodeWorldField.NODES, nodes.count());
    set(image, InternodeWorldField.NODE, node);
    set(image, InternodeWorldField.NODE_OF, base + nodeOf);
    set(image, InternodeWorldField.PARTNERS, partners);
    set(image, InternodeWorldField.PARTNER, base + partnerTable);
    set(image, InternodeWorldField.RAIL_TO, base + railTo);
    set(image, InternodeWorldField.SLOTS, InternodeLayout.SLOTS);
    set(image, InternodeWorldField.SLOT_BYTES, layout.slotBytes);
    set(image, InternodeWorldField.MAPPED, link.puts() ? 0 : 1);
    set(image, InternodeWorldField.LANES, link.lanesPerRing());
    set(image, InternodeWorldField.SENT, base + sent);
    set(image, InternodeWorldField.TAKEN, base + taken);
    set(image, InternodeWorldField.COUNTS_PUBLISHED, counter(layout.countsPublished(0)));
    set(image, InternodeWorldField.REMOTE_COUNTS_PUBLISHED, layout.countsPublished(rank));
    set(image, InternodeWorldField.PUBLISHED_ROUNDS, base + publishedRounds);
    set(image, InternodeWorldField.COUNTS_OUT, link.outgoing());
    set(image, InternodeWorldField.COUNTS_SOURCE, link.outgoingSource());
    set(image, InternodeWorldField.COUNTS_TARGET, layout.counts(rank));
    set(image, InternodeWorldField.REMOTE_COUNTS, base + remoteCounts);
    set(image, InternodeWorldField.COUNTS_IN, link.incoming() + layout.counts(0));
    set(image, InternodeWorldField.COUNT_STRIDE, layout.countStride());
    set(image, InternodeWorldField.SEEN, base + seen);
    link.describe(
        image.asSlice(
            InternodeWorldField.TRANSPORT.ordinal() * (long) Long.BYTES,
            InternodeTransportField.BYTES));
  }

  private void writePartner(MemorySegment image, Rails rails, int partner, int place) {
    int node = nodes.of(partner);
    int remotePlace = rails.place(partner, rank);
    long target = layout.rings + layout.ring(remotePlace);
    long out = layout.outgoingRings + layout.ring(place);
    set(image, InternodePartnerField.RANK, partner);
    set(image, InternodePartnerField.NODE, node);
    set(image, InternodePartnerField.IS_RECEIVER, rails.rail(rank, node) == partner ? 1 : 0);
    set(
        image,
        InternodePartnerField.IS_SENDER,
        rails.rail(partner, nodes.of(rank)) == rank ? 1 : 0);
    set(
        image,
        InternodePartnerField.OUT,
        link.puts() ? link.outgoing() + out : link.incoming(partner) + target);
    set(image, InternodePartnerField.OUT_SOURCE, link.outgoingSource() + out);
    set(image, InternodePartnerField.OUT_TARGET, target);
    set(image, InternodePartnerField.IN, link.incoming() + layout.rings + layout.ring(place));
    set(image, InternodePartnerField.ARRIVED, counter(layout.arrived(place)));
    set(image, InternodePartnerField.CREDITS, counter(layout.credits(place)));
    set(image, InternodePartnerField.REMOTE_ARRIVED, layout.arrived(remotePlace));
    set(image, InternodePartnerField.REMOTE_CREDITS, layout.credits(remotePlace));
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
