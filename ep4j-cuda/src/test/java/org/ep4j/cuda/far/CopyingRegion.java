package org.ep4j.cuda.far;

import org.ep4j.memory.PageArena;
import org.ep4j.wire.Region;
import org.ep4j.wire.WireMemory;
import org.ep4j.wire.support.Checks;
import org.ep4j.wire.support.GroupRegion;
import org.jspecify.annotations.Nullable;

/** Memory of the host or of a GPU, at an address that the driver knows in any case. */
final class CopyingRegion extends GroupRegion {
  /** Number of what peers do not know. */
  static final int OWN = -1;

  private final CopyingWire wire;
  private final @Nullable PageArena owned;
  private final int number;

  CopyingRegion(CopyingWire wire, WireMemory memory, @Nullable PageArena owned, int number) {
    super(wire, memory, number != OWN);
    this.wire = wire;
    this.owned = owned;
    this.number = number;
  }

  static CopyingRegion of(Region region, CopyingWire wire) {
    if (region instanceof CopyingRegion own && own.isOf(wire)) {
      return own;
    }
    throw Checks.foreign(region);
  }

  int number() {
    return number;
  }

  @Override
  public void close() {
    if (shut()) {
      wire.forget(this);
      if (owned != null) {
        owned.close();
      }
    }
  }
}
