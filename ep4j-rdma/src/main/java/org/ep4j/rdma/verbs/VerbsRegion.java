package org.ep4j.rdma.verbs;

import java.nio.ByteBuffer;
import org.ep4j.memory.PageArena;
import org.ep4j.wire.Region;
import org.ep4j.wire.WireMemory;
import org.ep4j.wire.support.Checks;
import org.jspecify.annotations.Nullable;

/** A region of this rank, registered with each port; and where its peers have theirs. */
final class VerbsRegion implements Region {
  private final VerbsWire wire;
  private final WireMemory memory;
  private final @Nullable PageArena owned;
  private final boolean exposed;
  // By port; 0 where nothing is registered: no bytes, or closed.
  private final long[] registrations;
  private final int[] localKeys;
  // By rank; empty until the peers have told, or if they know nothing of it.
  private long[] sizes = {};
  private long[] addresses = {};
  private int[][] remoteKeys = {};
  private volatile boolean closed;

  private VerbsRegion(
      VerbsWire wire, WireMemory memory, @Nullable PageArena owned, boolean exposed, int ports) {
    this.wire = wire;
    this.memory = memory;
    this.owned = owned;
    this.exposed = exposed;
    registrations = new long[ports];
    localKeys = new int[ports];
  }

  /** Registers memory with all ports. */
  static VerbsRegion register(
      VerbsWire wire,
      OpenPort[] ports,
      WireMemory memory,
      @Nullable PageArena owned,
      boolean exposed) {
    VerbsRegion region = new VerbsRegion(wire, memory, owned, exposed, ports.length);
    boolean done = false;
    try {
      for (int port = 0; memory.bytes() > 0 && port < ports.length; port++) {
        long registration = ports[port].register(memory.address(), memory.bytes(), exposed);
        region.registrations[port] = registration;
        region.localKeys[port] = OpenPort.localKey(registration);
      }
      done = true;
      return region;
    } finally {
      if (!done) {
        region.deregister();
      }
    }
  }

  /** The region as one of {@code wire} that may be used. */
  static VerbsRegion of(Region region, VerbsWire wire) {
    if (region instanceof VerbsRegion own && own.wire == wire && !own.closed) {
      return own;
    }
    throw Checks.foreign(region);
  }

  /** What the peers need to know: size, address, and a key a port. */
  byte[] offer() {
    ByteBuffer offer = ByteBuffer.allocate(2 * Long.BYTES + registrations.length * Integer.BYTES);
    offer.putLong(memory.bytes()).putLong(memory.address());
    for (long registration : registrations) {
      offer.putInt(registration == 0 ? 0 : OpenPort.remoteKey(registration));
    }
    return offer.array();
  }

  /** Takes what all ranks have offered. */
  void meet(byte[][] offers) {
    sizes = new long[offers.length];
    addresses = new long[offers.length];
    remoteKeys = new int[offers.length][registrations.length];
    for (int rank = 0; rank < offers.length; rank++) {
      ByteBuffer offer = ByteBuffer.wrap(offers[rank]);
      sizes[rank] = offer.getLong();
      addresses[rank] = offer.getLong();
      for (int port = 0; port < registrations.length; port++) {
        remoteKeys[rank][port] = offer.getInt();
      }
    }
  }

  long address() {
    return memory.address();
  }

  int localKey(int port) {
    return localKeys[port];
  }

  /** Where a rank's part begins, in its own address space. */
  long address(int rank) {
    return addresses[rank];
  }

  int remoteKey(int rank, int port) {
    return remoteKeys[rank][port];
  }

  @Override
  public long bytes() {
    return memory.bytes();
  }

  @Override
  public long bytes(int rank) {
    if (!exposed) {
      throw new IllegalStateException(
          "the region is registered on this rank only: make it with allocate() or expose()");
    }
    return sizes[rank];
  }

  @Override
  public boolean exposed() {
    return exposed;
  }

  @Override
  public WireMemory memory() {
    return memory;
  }

  /** Takes it back before anybody used it; its memory stays with the caller. */
  void withdraw() {
    closed = true;
    deregister();
  }

  /** From here on the devices refuse what peers still put into it. */
  private void deregister() {
    for (int port = 0; port < registrations.length; port++) {
      if (registrations[port] != 0) {
        Verbs.deregister(registrations[port]);
        registrations[port] = 0;
      }
    }
  }

  @Override
  public synchronized void close() {
    if (!closed) {
      closed = true;
      deregister();
      wire.forget(this);
      if (owned != null) {
        owned.close();
      }
    }
  }
}
