package org.ep4j.rdma.verbs;

import java.nio.ByteBuffer;
import org.ep4j.memory.PageArena;
import org.ep4j.rdma.verbs.bindings.Verbs;
import org.ep4j.wire.Region;
import org.ep4j.wire.WireMemory;
import org.ep4j.wire.support.GroupRegion;
import org.ep4j.wire.support.WireArguments;
import org.jspecify.annotations.Nullable;

/** A region of this rank, registered with each port, and the addresses of the peers. */
final class VerbsRegion extends GroupRegion {
  private final VerbsWire wire;
  private final @Nullable PageArena owned;
  // By port; 0 if not registered: 0 bytes, or closed.
  private final long[] registrations;
  private final int[] localKeys;
  // By rank; empty before the exchange, and for a region that is not exposed.
  private long[] addresses = {};
  private int[][] remoteKeys = {};

  private VerbsRegion(
      VerbsWire wire, WireMemory memory, @Nullable PageArena owned, boolean exposed, int ports) {
    super(wire, memory, exposed);
    this.wire = wire;
    this.owned = owned;
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
        long registration = ports[port].register(memory, exposed);
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

  /** Casts an open region of {@code wire}. */
  static VerbsRegion of(Region region, VerbsWire wire) {
    if (region instanceof VerbsRegion own && own.isOf(wire)) {
      return own;
    }
    throw WireArguments.foreign(region);
  }

  /** Data for the peers: size, address, and a key per port. */
  byte[] offer() {
    ByteBuffer offer = ByteBuffer.allocate(2 * Long.BYTES + registrations.length * Integer.BYTES);
    offer.putLong(bytes()).putLong(memory().address());
    for (long registration : registrations) {
      offer.putInt(registration == 0 ? 0 : OpenPort.remoteKey(registration));
    }
    return offer.array();
  }

  /** Sets the data of all ranks. */
  void meet(byte[][] offers) {
    long[] sizes = new long[offers.length];
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
    sizes(sizes);
  }

  long address() {
    return memory().address();
  }

  int localKey(int port) {
    return localKeys[port];
  }

  /** Address of the region of a rank, in its address space. */
  long address(int rank) {
    return addresses[rank];
  }

  int remoteKey(int rank, int port) {
    return remoteKeys[rank][port];
  }

  /** Deregisters an unused region; the caller keeps its memory. */
  void withdraw() {
    boolean ignored = shut();
    deregister();
  }

  /** Deregisters the memory: from here on the devices refuse puts of peers. */
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
    if (shut()) {
      deregister();
      wire.forget(this);
      if (owned != null) {
        owned.close();
      }
    }
  }
}
