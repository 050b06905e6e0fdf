package org.ep4j.moe.gpu;

import java.util.ArrayList;
import java.util.List;

/**
 * Memory of a GPU for the parts of one pass, reused by the next. It grows with the largest pass,
 * and is freed with its device. One thread at a time.
 */
public final class DeviceScratch {
  private static final long ALIGNMENT = 256;

  /** Smallest block: small parts share one. */
  private static final long BLOCK_BYTES = 1 << 20;

  private record Block(long address, long bytes) {}

  private final LayerDevice device;
  private final List<Block> blocks = new ArrayList<>();

  /** The block that parts come from, and its bytes in use. */
  private int current;

  private long used;

  public DeviceScratch(LayerDevice device) {
    this.device = device;
  }

  /** Memory until the next {@link #reset}, at a multiple of 256; its content is undefined. */
  public long take(long bytes) {
    long wanted = Math.max(1, bytes);
    while (current < blocks.size() && used + wanted > blocks.get(current).bytes) {
      current++;
      used = 0;
    }
    if (current == blocks.size()) {
      long size = Math.max(wanted, BLOCK_BYTES);
      blocks.add(new Block(device.allocate(size), size));
    }
    long address = blocks.get(current).address + used;
    used += (wanted + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
    return address;
  }

  /** Takes all parts back; work that uses them has ended, or ends before later work begins. */
  public void reset() {
    current = 0;
    used = 0;
  }
}
