package org.ep4j.cuda.far;

import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import org.ep4j.cuda.driver.CudaDevice;
import org.ep4j.cuda.driver.DeviceMemory;
import org.ep4j.engine.Nodes;
import org.ep4j.engine.Rails;

/**
 * {@code FarWorld} of {@code kernels/far.cuh} and all that it points to, on the device. What is
 * there stays where it is when ranks are lost: partners become fewer.
 */
final class FarTable implements AutoCloseable {
  private static final long WORLD =
      FarWorldField.CARRIER.ordinal() * (long) Long.BYTES + FarCarrierField.BYTES;
  private static final long PARTNER = FarPartnerField.values().length * (long) Long.BYTES;

  /** A {@code FarSeen}: a word apart from the others, then one a slot. */
  private static final long SEEN_ALIGNMENT = 128;

  private static final long SEEN = SEEN_ALIGNMENT + FarLayout.SLOTS * (long) Long.BYTES;

  /** As in {@code kernels/protocol.cuh}: in place of the node of a rank that is gone. */
  private static final int NO_NODE = -1;

  private final FarLink link;
  private final FarLayout layout;
  private final Nodes nodes;
  private final int rank;

  /** Partners that there is room for. */
  private final int most;

  private final DeviceMemory memory;

  // Offsets behind the world.
  private final long partnerTable = WORLD;
  private final long nodeOf;
  private final long railTo;
  private final long countsThere;
  private final long sent;
  private final long taken;
  private final long tellings;
  private final long seen;

  /**
   * With all ranks.
   *
   * @param most partners that there can be
   */
  FarTable(CudaDevice device, FarLink link, FarLayout layout, Nodes nodes, int rank, int most) {
    this.link = link;
    this.layout = layout;
    this.nodes = nodes;
    this.rank = rank;
    this.most = most;
    nodeOf = partnerTable + most * PARTNER;
    railTo = align(nodeOf + (long) nodes.ranks() * Integer.BYTES);
    countsThere = align(railTo + (long) nodes.count() * Integer.BYTES);
    sent = countsThere + (long) nodes.ranks() * Long.BYTES;
    taken = sent + (long) most * Long.BYTES;
    tellings = taken + (long) most * Long.BYTES;
    seen = align(tellings + Long.BYTES, SEEN_ALIGNMENT);
    memory = DeviceMemory.allocate(device, seen + 2L * most * SEEN);
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
   * As if nothing had been sent yet, through what carries now. No kernel runs.
   *
   * @param gone ranks that do not count; a node that has lost some has lost all, else rails would
   *     be others than memory was laid out for
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

  /** Partners with all ranks. */
  int partners() {
    return most;
  }

  /** Where the node of each rank stands. */
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
    set(image, FarWorldField.FIRST, nodes.first(node));
    set(image, FarWorldField.END, nodes.end(node));
    set(image, FarWorldField.NODES, nodes.count());
    set(image, FarWorldField.NODE, node);
    set(image, FarWorldField.NODE_OF, base + nodeOf);
    set(image, FarWorldField.PARTNERS, partners);
    set(image, FarWorldField.PARTNER, base + partnerTable);
    set(image, FarWorldField.RAIL_TO, base + railTo);
    set(image, FarWorldField.SLOTS, FarLayout.SLOTS);
    set(image, FarWorldField.SLOT_BYTES, layout.slotBytes);
    set(image, FarWorldField.MAPPED, link.puts() ? 0 : 1);
    set(image, FarWorldField.LANES, link.lanesOfARing());
    set(image, FarWorldField.SENT, base + sent);
    set(image, FarWorldField.TAKEN, base + taken);
    set(image, FarWorldField.TOLD, counter(layout.told(0)));
    set(image, FarWorldField.TOLD_THERE, layout.told(rank));
    set(image, FarWorldField.TELLINGS, base + tellings);
    set(image, FarWorldField.COUNTS_OUT, link.outgoing());
    set(image, FarWorldField.COUNTS_SOURCE, link.outgoingSource());
    set(image, FarWorldField.COUNTS_TARGET, layout.counts(rank));
    set(image, FarWorldField.COUNTS_THERE, base + countsThere);
    set(image, FarWorldField.COUNTS_IN, link.landing() + layout.counts(0));
    set(image, FarWorldField.COUNT_STRIDE, layout.countStride());
    set(image, FarWorldField.SEEN, base + seen);
    link.describe(
        image.asSlice(FarWorldField.CARRIER.ordinal() * (long) Long.BYTES, FarCarrierField.BYTES));
  }

  private void writePartner(MemorySegment image, Rails rails, int partner, int place) {
    int node = nodes.of(partner);
    int placeThere = rails.place(partner, rank);
    long target = layout.rings + layout.ring(placeThere);
    long out = layout.outgoingRings + layout.ring(place);
    set(image, FarPartnerField.RANK, partner);
    set(image, FarPartnerField.NODE, node);
    set(image, FarPartnerField.TAKES, rails.rail(rank, node) == partner ? 1 : 0);
    set(image, FarPartnerField.GIVES, rails.rail(partner, nodes.of(rank)) == rank ? 1 : 0);
    set(
        image,
        FarPartnerField.OUT,
        link.puts() ? link.outgoing() + out : link.landing(partner) + target);
    set(image, FarPartnerField.OUT_SOURCE, link.outgoingSource() + out);
    set(image, FarPartnerField.OUT_TARGET, target);
    set(image, FarPartnerField.IN, link.landing() + layout.rings + layout.ring(place));
    set(image, FarPartnerField.ARRIVED, counter(layout.arrived(place)));
    set(image, FarPartnerField.CREDITS, counter(layout.credits(place)));
    set(image, FarPartnerField.ARRIVED_THERE, layout.arrived(placeThere));
    set(image, FarPartnerField.CREDITS_THERE, layout.credits(placeThere));
  }

  private void writeLists(MemorySegment image, Rails rails, boolean[] gone) {
    for (int r = 0; r < nodes.ranks(); r++) {
      int node = gone[r] ? NO_NODE : nodes.of(r);
      image.set(ValueLayout.JAVA_INT, nodeOf + (long) r * Integer.BYTES, node);
      long landing = link.landing(r);
      image.set(
          ValueLayout.JAVA_LONG,
          countsThere + (long) r * Long.BYTES,
          landing == 0 ? 0 : landing + layout.counts(rank));
    }
    for (int node = 0; node < nodes.count(); node++) {
      // Of this node and of those that are gone it has no meaning.
      int place = Math.max(0, rails.place(rank, rails.rail(rank, node)));
      image.set(ValueLayout.JAVA_INT, railTo + (long) node * Integer.BYTES, place);
    }
  }

  @Override
  public void close() {
    memory.close();
  }
}
