package org.ep4j.rdma.ucx;

import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.util.Objects;
import org.ep4j.wire.Region;
import org.ep4j.wire.WireException;
import org.ep4j.wire.WireMemory;
import org.ep4j.wire.support.GroupRegion;
import org.ep4j.wire.support.WireArguments;
import org.jspecify.annotations.Nullable;

/**
 * A region of this rank, and what it knows of the peers' parts.
 *
 * <p>Peers write directly only into memory that the wire has allocated: with some transports UCX
 * writes wherever a peer says, and nothing but the peer's knowledge keeps a late put from memory
 * that was given back. That memory therefore stays where it is until the wire is closed, also when
 * its region is closed before. Memory of the caller is written by this rank's own thread, out of
 * messages, while the region is open.
 */
final class UcxRegion extends GroupRegion {
  /** Id of a region that only this rank knows of. */
  static final int LOCAL = -1;

  private final UcxWire wire;
  private final int id;
  private final boolean direct;
  private final MemorySegment segment;
  // Null if there are no bytes.
  private final @Nullable UcxMemory registered;
  // Bounds the use of memory that the wire has allocated; null for memory of the caller.
  private final @Nullable Arena access;
  // By rank; empty until the peers have told, or if they know nothing of it.
  private long[] addresses = {};
  private MemorySegment[] packedKeys = {};
  // By number of the link; 0 until the first put through it. Touched by the link's strand.
  private final long[] keys;

  UcxRegion(
      UcxWire wire,
      int id,
      WireMemory memory,
      @Nullable UcxMemory registered,
      @Nullable Arena access,
      int peerConnections) {
    super(wire, memory, id != LOCAL);
    this.wire = wire;
    this.id = id;
    this.direct = access != null;
    this.segment = Objects.requireNonNull(memory.segment(), "host memory");
    this.registered = registered;
    this.access = access;
    this.keys = new long[peerConnections];
  }

  /** The region as one of {@code wire} that may be used. */
  static UcxRegion of(Region region, UcxWire wire) {
    if (region instanceof UcxRegion ucx && ucx.isOf(wire)) {
      return ucx;
    }
    throw WireArguments.foreign(region);
  }

  int id() {
    return id;
  }

  /** Whether peers write into it directly. */
  boolean direct() {
    return direct;
  }

  /** What the peers have told: where their parts are, how long, and how they are reached. */
  void peers(long[] sizes, long[] addresses, MemorySegment[] packedKeys) {
    sizes(sizes);
    this.addresses = addresses;
    this.packedKeys = packedKeys;
  }

  MemorySegment own() {
    return segment;
  }

  /** Address of this rank's memory, and UCX's handle of it. */
  long address() {
    return memory().address();
  }

  long handle() {
    return registered == null ? 0 : registered.handle();
  }

  long address(int rank) {
    return addresses[rank];
  }

  /**
   * The key for puts through a link, made on first use.
   *
   * @throws WireException if UCX refuses it
   */
  long key(UcxConnection peerConnection) {
    long key = keys[peerConnection.number()];
    return key == 0 ? unpack(peerConnection) : key;
  }

  private long unpack(UcxConnection peerConnection) {
    try (Arena arena = Arena.ofConfined()) {
      MemorySegment out = arena.allocate(ValueLayout.JAVA_LONG);
      byte status =
          UcpSetUp.unpackKey(
              peerConnection.endpoint(),
              packedKeys[peerConnection.peer()].address(),
              out.address());
      UcpStatus.check(status, "ucp_ep_rkey_unpack for a region of rank " + peerConnection.peer());
      keys[peerConnection.number()] = out.get(ValueLayout.JAVA_LONG, 0);
      return keys[peerConnection.number()];
    }
  }

  @Override
  public synchronized void close() {
    if (shut()) {
      wire.forget(this);
      if (access != null) {
        access.close();
      } else if (registered != null) {
        registered.close();
      }
    }
  }

  /** Gives up what was kept for late puts; nobody polls the wire any more. */
  synchronized void release() {
    for (int i = 0; i < keys.length; i++) {
      if (keys[i] != 0) {
        UcpSetUp.destroyKey(keys[i]);
        keys[i] = 0;
      }
    }
  }

  /** Gives the memory back; no worker is there any more that could write it. */
  synchronized void releaseMemory() {
    close();
    if (registered != null) {
      registered.close();
    }
  }
}
