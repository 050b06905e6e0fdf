package org.ep4j.relocation;

import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import org.ep4j.wire.Region;
import org.ep4j.wire.Wire;
import org.ep4j.wire.WireMemory;

/**
 * The weights of a slot, registered with a wire: those of the host where they lie, those of a
 * device in a copy on the host. Puts take the bytes in ascending order, so each byte is copied
 * once, in front of the first put that takes it.
 */
final class LeavingWeights {
  private final Slot slot;
  private final MemorySegment onHost;
  private final Region region;

  /** Bytes in front of which the copy is complete. */
  private long copied;

  /**
   * @param copies holds the copy, and outlives all puts
   */
  LeavingWeights(Wire wire, Slot slot, Arena copies) {
    this.slot = slot;
    long bytes = slot.memory().byteSize();
    onHost = slot.onDevice() ? copies.allocate(bytes, Long.BYTES) : slot.memory();
    copied = slot.onDevice() ? 0 : bytes;
    region = wire.register(WireMemory.host(onHost));
  }

  /** The region from which the bytes in front of {@code end} may be put. */
  Region upTo(long end) {
    if (copied < end) {
      slot.read(copied, onHost.asSlice(copied, end - copied));
      copied = end;
    }
    return region;
  }

  Region region() {
    return region;
  }
}
