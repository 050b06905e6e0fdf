package org.ep4j.relocation;

import java.lang.foreign.MemorySegment;
import org.ep4j.engine.Devices;

/**
 * The memory of a slot. The JVM reads and writes that of the host alone; copies from and to a
 * device are complete when a method returns, and wait for no stream.
 *
 * @param memory as the caller gave it; on a device its address alone is used
 * @param device ordinal, or {@link #ON_HOST}
 */
record Slot(MemorySegment memory, int device) {
  private static final int ON_HOST = -1;

  /** Asks the driver where the memory lies. */
  static Slot of(MemorySegment memory) {
    return new Slot(memory, Devices.deviceOf(memory.address()).orElse(ON_HOST));
  }

  boolean onDevice() {
    return device != ON_HOST;
  }

  /** Fills {@code target} with the bytes from {@code offset} on. */
  void read(long offset, MemorySegment target) {
    if (onDevice()) {
      Devices.access(device).copyToHost(device, memory.address() + offset, target);
    } else {
      target.copyFrom(memory.asSlice(offset, target.byteSize()));
    }
  }

  /** Replaces all bytes. */
  void write(MemorySegment source) {
    if (onDevice()) {
      Devices.access(device).copyFromHost(device, memory.address(), source);
    } else {
      memory.copyFrom(source);
    }
  }
}
