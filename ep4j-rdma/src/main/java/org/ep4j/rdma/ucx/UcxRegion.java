package org.ep4j.rdma.ucx;

import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.util.Objects;
import org.ep4j.rdma.ucx.bindings.UcpSetUp;
import org.ep4j.rdma.ucx.bindings.UcpStatus;
import org.ep4j.wire.Region;
import org.ep4j.wire.WireException;
import org.ep4j.wire.WireMemory;
import org.ep4j.wire.support.GroupRegion;
import org.ep4j.wire.support.WireArguments;
import org.jspecify.annotations.Nullable;

/**
 * A region of this rank, and the addresses and keys of the peers.
 *
 * <p>Peers write directly only into memory that the wire allocated. With some transports UCX writes
 * to any address that a peer names, so a late put could hit freed memory. Therefore this memory
 * stays allocated until the wire is closed, even if its region is closed before. Memory of the
 * caller is written by the thread of this rank, from messages, while the region is open.
 */
final class UcxRegion extends GroupRegion {
  /** Id of a region that is not exposed. */
  static final int LOCAL = -1;

  private final UcxWire wire;
  private final int id;
  private final boolean direct;
  private final MemorySegment segment;
  // Null for 0 bytes.
  private final @Nullable UcxMemory registered;
  // Scope of access to memory that the wire allocated; null for memory of the caller.
  private final @Nullable Arena access;
  // By rank; empty before the exchange, and for a region that is not exposed.
  private long[] addresses = {};
  private MemorySegment[] packedKeys = {};
  // By number of the connection; 0 before its first put. Accessed by its progress context.
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

  /** Casts an open region of {@code wire}. */
  static UcxRegion of(Region region, UcxWire wire) {
    if (region instanceof UcxRegion ucx && ucx.isOf(wire)) {
      return ucx;
    }
    throw WireArguments.foreign(region);
  }

  int id() {
    return id;
  }

  /** Whether peers write into the region directly. */
  boolean direct() {
    return direct;
  }

  /** Sets sizes, addresses and keys of the peers. */
  void peers(long[] sizes, long[] addresses, MemorySegment[] packedKeys) {
    sizes(sizes);
    this.addresses = addresses;
    this.packedKeys = packedKeys;
  }

  MemorySegment own() {
    return segment;
  }

  /** Address of the memory of this rank. */
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
   * The key for puts through a connection, created on first use.
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

  /** Releases the keys; called when no thread polls the wire. */
  synchronized void release() {
    for (int i = 0; i < keys.length; i++) {
      if (keys[i] != 0) {
        UcpSetUp.destroyKey(keys[i]);
        keys[i] = 0;
      }
    }
  }

  /** Frees the memory; called when no worker can write it. */
  synchronized void releaseMemory() {
    close();
    if (registered != null) {
      registered.close();
    }
  }
}
