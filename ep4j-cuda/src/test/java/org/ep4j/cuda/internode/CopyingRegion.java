package org.ep4j.cuda.internode;

import org.ep4j.wire.Region;
import org.ep4j.wire.WireMemory;
import org.ep4j.wire.support.GroupRegion;
import org.ep4j.wire.support.WireArguments;

/** GPU memory of another owner. */
final class CopyingRegion extends GroupRegion {
  /** Number of a region that peers do not know. */
  static final int OWN = -1;

  private final CopyingWire wire;
  private final int number;

  CopyingRegion(CopyingWire wire, WireMemory memory, int number) {
    super(wire, memory, number != OWN);
    this.wire = wire;
    this.number = number;
  }

  static CopyingRegion of(Region region, CopyingWire wire) {
    if (region instanceof CopyingRegion own && own.isOf(wire)) {
      return own;
    }
    throw WireArguments.foreign(region);
  }

  int number() {
    return number;
  }

  @Override
  public void close() {
    if (shut()) {
      wire.forget(this);
    }
  }
}
