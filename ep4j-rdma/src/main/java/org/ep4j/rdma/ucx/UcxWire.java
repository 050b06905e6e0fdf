package org.ep4j.rdma.ucx;

import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.nio.ByteBuffer;
import java.time.Duration;
import java.util.Arrays;
import java.util.List;
import java.util.concurrent.CopyOnWriteArrayList;
import org.ep4j.group.Group;
import org.ep4j.memory.ClosingSteps;
import org.ep4j.rdma.ucx.bindings.NativeBytes;
import org.ep4j.wire.Counters;
import org.ep4j.wire.Lane;
import org.ep4j.wire.Region;
import org.ep4j.wire.WireConfig;
import org.ep4j.wire.WireException;
import org.ep4j.wire.WireMemory;
import org.ep4j.wire.support.CollectiveStep;
import org.ep4j.wire.support.GroupWire;
import org.ep4j.wire.support.NumberedRegions;
import org.ep4j.wire.support.WireArguments;
import org.jspecify.annotations.Nullable;

/** A wire over the fabrics of UCX; the protocol is in {@link MessageLayout}. */
final class UcxWire extends GroupWire {
  /** Timeout of a closing rank for the answers to its goodbye. */
  private static final Duration GOODBYE_TIMEOUT = Duration.ofSeconds(1);

  private final UcxContext context;
  private final UcxProgressContext[] progressContexts;
  // Owns the counters, the buffers and the functions that UCX calls.
  private final Arena arena;
  private final Counters counters;
  // Includes closed regions, which peers may write until the workers are destroyed.
  private final List<UcxRegion> regions = new CopyOnWriteArrayList<>();
  private final NumberedRegions<UcxRegion> exposed = new NumberedRegions<>();
  private final Lane[][] lanes;

  /** A wire over workers without connections; the caller adds these. */
  UcxWire(
      Group group,
      WireConfig config,
      UcxContext context,
      UcxProgressContext[] progressContexts,
      Arena arena) {
    super(UcxWireProvider.NAME, group, config);
    this.context = context;
    this.progressContexts = progressContexts;
    this.arena = arena;
    counters = Counters.allocate(arena, config.counters());
    lanes = new Lane[group.size()][];
    Arrays.setAll(lanes, peer -> new Lane[peer == group.rank() ? 0 : config.lanes()]);
  }

  /** Adds the lanes of a connection. */
  void add(UcxConnection peerConnection) {
    for (UcxLane lane : peerConnection.lanes()) {
      lanes[peerConnection.peer()][lane.index()] = lane;
    }
  }

  UcxProgressContext[] progressContexts() {
    return progressContexts;
  }

  @Override
  public Lane lane(int peer, int index) {
    WireArguments.lane(peer, index, group.rank(), group.size(), config);
    return lanes[peer][index];
  }

  @Override
  public Region allocate(long bytes, Duration timeout) {
    requireOpen();
    String error = "";
    UcxMemory owned = null;
    byte[] key = {};
    try {
      owned = context.allocate(bytes);
      key = owned.packedKey();
    } catch (WireException e) {
      error = String.valueOf(e.getMessage());
    }
    Arena access = Arena.ofShared();
    MemorySegment segment =
        owned == null
            ? access.allocate(0)
            : NativeBytes.at(owned.address(), bytes, access).fill((byte) 0);
    UcxRegion region = expose(WireMemory.host(segment), owned, access);
    boolean done = false;
    try {
      announce(region, error, key, timeout);
      done = true;
      return region;
    } finally {
      if (!done) {
        region.close();
      }
    }
  }

  @Override
  public Region expose(WireMemory memory, Duration timeout) {
    requireOpen();
    String error = unreachable(memory);
    UcxMemory registered = null;
    try {
      registered = error.isEmpty() ? registered(memory) : null;
    } catch (WireException e) {
      error = String.valueOf(e.getMessage());
    }
    if (!error.isEmpty()) {
      // Throws on all ranks, with this error.
      CollectiveStep.exchange(group, error, new byte[0], timeout);
    }
    UcxRegion region = expose(memory, registered, null);
    boolean done = false;
    try {
      announce(region, "", new byte[0], timeout);
      done = true;
      return region;
    } finally {
      if (!done) {
        region.close();
      }
    }
  }

  /** Exposes the region before the exchange, because peers may put right after it. */
  private synchronized UcxRegion expose(
      WireMemory memory, @Nullable UcxMemory registered, @Nullable Arena access) {
    return exposed.add(id -> region(id, memory, registered, access));
  }

  /** Exchanges size, address and key of the regions of all ranks. */
  private void announce(UcxRegion region, String error, byte[] key, Duration timeout) {
    ByteBuffer mine = ByteBuffer.allocate(2 * Long.BYTES + key.length);
    mine.putLong(region.bytes()).putLong(region.address()).put(key);
    byte[][] all = CollectiveStep.exchange(group, error, mine.array(), timeout);
    long[] sizes = new long[all.length];
    long[] addresses = new long[all.length];
    MemorySegment[] keys = new MemorySegment[all.length];
    for (int rank = 0; rank < all.length; rank++) {
      ByteBuffer theirs = ByteBuffer.wrap(all[rank]);
      sizes[rank] = theirs.getLong();
      addresses[rank] = theirs.getLong();
      keys[rank] = arena.allocate(Math.max(1, theirs.remaining()), 8);
      keys[rank].asByteBuffer().put(theirs);
    }
    region.peers(sizes, addresses, keys);
  }

  @Override
  public Region register(WireMemory memory) {
    requireOpen();
    requireReadable(memory);
    return region(UcxRegion.LOCAL, memory, registered(memory), null);
  }

  private @Nullable UcxMemory registered(WireMemory memory) {
    return memory.bytes() == 0 ? null : context.register(memory.address(), memory.bytes());
  }

  private UcxRegion region(
      int id, WireMemory memory, @Nullable UcxMemory registered, @Nullable Arena access) {
    int peerConnections = config.connections() * group.size();
    UcxRegion region = new UcxRegion(this, id, memory, registered, access, peerConnections);
    regions.add(region);
    return region;
  }

  /** Removes a closed region, so that peers can no longer name it. */
  synchronized void forget(UcxRegion region) {
    if (region.exposed()) {
      exposed.remove(region.id());
    } else {
      regions.remove(region);
    }
  }

  /** The exposed region with this id; null if none has it. */
  @Nullable UcxRegion region(int id) {
    return exposed.get(id);
  }

  @Override
  public boolean exposes(WireMemory memory) {
    return memory.onHost();
  }

  /** UCX selects the transport: over shared memory or DC, a peer writes without this rank. */
  @Override
  public boolean severs() {
    return false;
  }

  @Override
  public Counters counters() {
    return counters;
  }

  @Override
  public int poll(int progressContext) {
    requireOpen();
    WireArguments.progressContext(progressContext, config);
    return progressContexts[progressContext].poll();
  }

  @Override
  public synchronized void close() {
    if (!shut()) {
      return;
    }
    ClosingSteps.run(this::sendGoodbye, this::release);
  }

  /** A step that throws leaks what the steps behind it free: a worker may still write there. */
  private void release() {
    regions.forEach(UcxRegion::release);
    for (UcxProgressContext progressContext : progressContexts) {
      progressContext.close();
    }
    // No worker can write this memory any more.
    regions.forEach(UcxRegion::releaseMemory);
    context.close();
    arena.close();
  }

  /** Ends all connections in order, as far as the peers answer. */
  private void sendGoodbye() {
    for (UcxProgressContext progressContext : progressContexts) {
      for (UcxConnection peerConnection : progressContext.peerConnections()) {
        peerConnection.leave();
      }
    }
    // A connection is closed by force after a second; UCX then owns the rest.
    long end = System.nanoTime() + GOODBYE_TIMEOUT.multipliedBy(2).toNanos();
    boolean ended = false;
    while (!ended && System.nanoTime() - end < 0) {
      ended = true;
      for (UcxProgressContext progressContext : progressContexts) {
        int _ = progressContext.poll();
        for (UcxConnection peerConnection : progressContext.peerConnections()) {
          ended &= peerConnection.hasEnded();
        }
      }
      if (!ended) {
        Thread.yield();
      }
    }
  }
}
