package org.ep4j.wire.direct;

import java.lang.foreign.MemorySegment;
import org.ep4j.error.ErrorCode;
import org.ep4j.error.IllegalUseException;
import org.ep4j.wire.Region;
import org.ep4j.wire.WireMemory;
import org.ep4j.wire.support.WireArguments;
import org.jspecify.annotations.Nullable;

/** A region as seen by one rank: its own segment, and those of its peers that accept puts. */
final class DirectRegion implements Region {
  private final DirectWire wire;
  private final WireMemory memory;
  private final MemorySegment own;
  private final MemorySegment @Nullable [] parts;
  private final @Nullable MappedMemory mapped;
  private volatile boolean closed;

  DirectRegion(
      DirectWire wire,
      MemorySegment own,
      MemorySegment @Nullable [] parts,
      @Nullable MappedMemory mapped) {
    this.wire = wire;
    this.memory = WireMemory.host(own);
    this.own = own;
    this.parts = parts;
    this.mapped = mapped;
  }

  /** Returns the region as one of {@code wire}, and rejects a closed or foreign one. */
  static DirectRegion of(Region region, DirectWire wire) {
    if (region instanceof DirectRegion direct && direct.wire == wire && !direct.closed) {
      return direct;
    }
    throw WireArguments.foreign(region);
  }

  MemorySegment own() {
    return own;
  }

  MemorySegment part(int rank) {
    MemorySegment[] all = parts;
    if (all == null) {
      throw new IllegalUseException(
          ErrorCode.REGION_NOT_SHARED,
          "the region is registered on this rank only: make it with allocate() or expose()");
    }
    return all[rank];
  }

  @Override
  public long bytes() {
    return own.byteSize();
  }

  @Override
  public long bytes(int rank) {
    return part(rank).byteSize();
  }

  @Override
  public @Nullable MemorySegment mapped(int rank) {
    return parts == null ? null : part(rank);
  }

  @Override
  public boolean exposed() {
    return parts != null;
  }

  @Override
  public WireMemory memory() {
    return memory;
  }

  @Override
  public synchronized void close() {
    if (!closed) {
      closed = true;
      if (mapped != null) {
        mapped.close();
      }
      wire.forget(this);
    }
  }
}
