package org.ep4j.engine.host.internode;

import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.Set;
import org.ep4j.WirePath;
import org.ep4j.config.BufferConfig;
import org.ep4j.config.WireOptions;
import org.ep4j.engine.host.layout.InternodeLowLatencyLayout;
import org.ep4j.engine.host.layout.LowLatencyLayout;
import org.ep4j.engine.host.layout.ScaleOutLayout;
import org.ep4j.engine.world.AgreedStep;
import org.ep4j.engine.world.Nodes;
import org.ep4j.engine.world.Rails;
import org.ep4j.group.Group;
import org.ep4j.memory.ClosingSteps;
import org.ep4j.memory.PageArena;
import org.ep4j.wire.Lane;
import org.ep4j.wire.Region;
import org.ep4j.wire.Wire;
import org.ep4j.wire.WireConfig;
import org.ep4j.wire.WireMemory;
import org.ep4j.wire.WireProvider;
import org.ep4j.wire.Wires;
import org.jspecify.annotations.Nullable;

/**
 * The connection of a rank to the ranks of other nodes: a wire, mirrors of their words, and rings
 * for rows; {@link ScaleOutLayout} is the protocol. Used by one thread at a time.
 *
 * <p>Ranks have their numbers in the buffer here. The wire may number fewer: after a loss it
 * connects the live ranks only.
 */
public final class ScaleOut implements AutoCloseable {
  /** Lane of mirrors, progress and other words. */
  static final int CONTROL = 0;

  /** Ranks in the buffer of the ranks that the wire connects. */
  private final int[] numbers;

  private final int rank;
  private final int ranks;
  private final Wire wire;
  private final ScaleOutLayout layout;
  private final Rails rails;
  private final long headBytes;

  private final InternodeLanes lanes;

  private final @Nullable Group owned;
  private final PageArena memory;
  private final Region head;
  private final Region mirrors;
  private final Region outgoing;
  private final RegistrationCache registrations;
  private final Region incoming;
  private final @Nullable InternodeLowLatency internodeLowLatency;
  private final ChunkSender[] senders;
  private final ChunkReceiver[] receivers;

  private boolean closed;

  private ScaleOut(
      Wire wire,
      @Nullable Group owned,
      PageArena memory,
      Local local,
      int[] numbers,
      int rank,
      Nodes nodes,
      Rails rails,
      Plan plan,
      Duration timeout) {
    this.owned = owned;
    this.memory = memory;
    this.numbers = numbers.clone();
    this.rank = rank;
    this.wire = wire;
    this.rails = rails;
    layout = plan.layout;
    headBytes = plan.head.byteSize();
    ranks = nodes.ranks();
    lanes = new InternodeLanes(wire, layout, nodes, numbers, rank, timeout);
    int[] partners = rails.partners(rank);
    head = local.head;
    outgoing = local.outgoing;
    mirrors = wire.allocate(ranks * headBytes, timeout);
    incoming = wire.allocate(layout.rings(partners.length), timeout);
    registrations = new RegistrationCache(wire);
    internodeLowLatency =
        plan.internode == null || plan.words == null
            ? null
            : new InternodeLowLatency(
                this, wire, plan.internode, plan.words, rank, ranks, local, timeout);
    senders = new ChunkSender[partners.length];
    receivers = new ChunkReceiver[partners.length];
    for (int place = 0; place < partners.length; place++) {
      senders[place] = new ChunkSender(this, partners[place], place);
      receivers[place] = new ChunkReceiver(this, partners[place], place);
    }
  }

  /**
   * Parts of a connection.
   *
   * @param layout layout of its memory
   * @param head the first bytes of this rank's region, which the peers mirror
   * @param words layout of the low-latency part; null without low-latency operations
   * @param internode internode layout of low-latency operations; null without them
   */
  public record Plan(
      ScaleOutLayout layout,
      MemorySegment head,
      @Nullable LowLatencyLayout words,
      @Nullable InternodeLowLatencyLayout internode) {}

  /**
   * Memory of this rank from which it puts, registered with the wire.
   *
   * @param shadow packets and rows of low-latency operations; null without them
   * @param waiting answers of low-latency operations; null without them
   */
  record Local(Region head, Region outgoing, @Nullable Region shadow, @Nullable Region waiting) {
    static Local register(Wire wire, Plan plan, int partners, int ranks, Arena memory) {
      InternodeLowLatencyLayout latency = plan.internode;
      return new Local(
          wire.register(WireMemory.host(plan.head)),
          ofSize(wire, memory, plan.layout.rings(partners)),
          latency == null ? null : ofSize(wire, memory, latency.areaBytes),
          latency == null ? null : ofSize(wire, memory, latency.waiting(0, ranks, 1) * 2));
    }

    private static Region ofSize(Wire wire, Arena memory, long bytes) {
      return wire.register(WireMemory.host(memory.allocate(Math.max(1, bytes), 64)));
    }
  }

  /**
   * Connects the ranks of {@code live}; collective among them.
   *
   * @param owned whether the connection closes the group
   * @param numbers their ranks in the buffer
   * @param gone ranks of the buffer that are not in {@code live}
   */
  public static ScaleOut open(
      Group live,
      boolean owned,
      int[] numbers,
      boolean[] gone,
      BufferConfig config,
      Nodes nodes,
      Plan plan) {
    Wire wire =
        Wires.open(
            live,
            WireConfig.builder()
                .wire(config.wire())
                .options(config.wireOptions())
                .counters(plan.layout.counters())
                .timeout(config.timeout())
                .build());
    PageArena memory = new PageArena();
    boolean done = false;
    try {
      int rank = numbers[live.rank()];
      Rails rails = new Rails(nodes, gone);
      // Memory that is locked for the wire can run out on one rank alone.
      Local local =
          AgreedStep.run(
              live,
              config.timeout(),
              () -> Local.register(wire, plan, rails.partners(rank).length, nodes.ranks(), memory),
              _ -> {});
      ScaleOut connection =
          new ScaleOut(
              wire,
              owned ? live : null,
              memory,
              local,
              numbers,
              rank,
              nodes,
              rails,
              plan,
              config.timeout());
      done = true;
      return connection;
    } finally {
      if (!done) {
        wire.close();
        memory.close();
      }
    }
  }

  public InternodeLanes lanes() {
    return lanes;
  }

  /** Kinds of wire that exist here. */
  public static Set<String> wires() {
    Set<String> names = new HashSet<>();
    for (WireProvider provider : Wires.providers()) {
      names.add(provider.name());
    }
    return names;
  }

  /** Name of the kind of wire. */
  public String wireName() {
    return wire.name();
  }

  /** Settings of the wire, the number of lanes among them. */
  public WireOptions wireOptions() {
    return wire.config().options();
  }

  /** Paths of the wire that count bytes, with the ranks of the buffer. */
  public List<WirePath> paths() {
    List<WirePath> paths = new ArrayList<>();
    for (WirePath path : wire.paths()) {
      paths.add(new WirePath(numbers[path.peer()], path.port(), path.queuePair(), path.bytes()));
    }
    return paths;
  }

  public Rails rails() {
    return rails;
  }

  public ScaleOutLayout layout() {
    return layout;
  }

  /** Offset of this rank's mirror of {@code peer}'s head. */
  public long mirror(int peer) {
    return mirrors.memory().address() + peer * headBytes;
  }

  /** Address of the counter with the progress of {@code peer}. */
  public long progress(int peer) {
    return counter(layout.progress(peer));
  }

  /** Address of the counter that shows whether {@code peer} has aborted. */
  public long aborted(int peer) {
    return counter(layout.aborted(peer));
  }

  /** Address of a counter of this rank. */
  long counter(int number) {
    return wire.counters().words().address() + (long) number * Long.BYTES;
  }

  /** The low-latency part; null without low-latency operations. */
  public @Nullable InternodeLowLatency internodeLowLatency() {
    return internodeLowLatency;
  }

  /** One sender for each partner, in the order of {@link Rails#partners}. */
  public ChunkSender[] senders() {
    return senders;
  }

  /** One receiver for each partner, in the order of {@link Rails#partners}. */
  public ChunkReceiver[] receivers() {
    return receivers;
  }

  long outgoing() {
    return outgoing.memory().address();
  }

  Region outgoingRegion() {
    return outgoing;
  }

  /** Memory of the caller that the wire may read while an operation runs. */
  public RegistrationCache registrations() {
    return registrations;
  }

  long incoming() {
    return incoming.memory().address();
  }

  /** Updates the mirrors of this rank's head on all ranks of other nodes. */
  public void mirror(long offset, long bytes) {
    long there = rank * headBytes + offset;
    for (int peer = 0; peer < ranks; peer++) {
      lanes.put(peer, CONTROL, head, offset, mirrors, there, bytes);
    }
  }

  /**
   * Notifies all peers that this rank has aborted; {@code bytes} bytes from {@code offset} hold the
   * reason.
   */
  public void abort(long offset, long bytes, long word) {
    lanes.abort(head, offset, mirrors, rank * headBytes + offset, bytes, word);
  }

  /**
   * Puts bytes of a chunk to {@code peer}, from {@code at} in the chunk; returns whether the wire
   * has accepted them, also if the lane has failed.
   */
  boolean putChunk(int peer, long number, Region source, long from, long at, long bytes) {
    Lane lane = lane(peer, number);
    long theirs = layout.chunk(rails.place(peer, rank), number) + at;
    return lane.put(source, from, incoming, theirs, bytes, Lane.NO_COUNTER) != Lane.BACK_PRESSURED;
  }

  /** Signals a complete chunk to {@code peer}; returns whether the wire has accepted the signal. */
  boolean announce(int peer, long number) {
    Lane lane = lane(peer, number);
    return lane.add(layout.arrived(rank, number), 1) != Lane.BACK_PRESSURED;
  }

  /** Grants {@code peer} credit for chunks; returns whether the wire has accepted it. */
  boolean credit(int peer, long chunks) {
    return lane(peer, CONTROL).add(layout.credits(rank), chunks) != Lane.BACK_PRESSURED;
  }

  private Lane lane(int peer, long number) {
    return lanes.get(peer, number);
  }

  /** Whether chunk {@code number} of {@code peer} has arrived. */
  boolean arrived(int peer, long number) {
    return wire.counters().get(layout.arrived(peer, number)) > number / ScaleOutLayout.SLOTS;
  }

  /** Number of chunks that {@code peer} has released. */
  long credits(int peer) {
    return wire.counters().get(layout.credits(peer));
  }

  /** Moves transfers in both directions. */
  public int poll() {
    return wire.poll(0);
  }

  /** Bytes of memory that peers put into. */
  public long bytes() {
    return mirrors.bytes()
        + incoming.bytes()
        + (internodeLowLatency == null ? 0 : internodeLowLatency.bytes());
  }

  /** Bytes of memory from which this rank puts, its region not among them. */
  public long privateBytes() {
    return outgoing.bytes()
        + (internodeLowLatency == null ? 0 : internodeLowLatency.privateBytes());
  }

  @Override
  public void close() {
    if (closed) {
      return;
    }
    closed = true;
    Group group = owned;
    ClosingSteps.run(
        registrations::close, wire::close, memory::close, group == null ? null : group::close);
  }
}
