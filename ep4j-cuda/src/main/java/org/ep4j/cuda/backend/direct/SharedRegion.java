package org.ep4j.cuda.backend.direct;

import java.util.concurrent.ConcurrentHashMap;
import org.ep4j.cuda.driver.CudaDevice;
import org.ep4j.cuda.driver.DeviceMemory;
import org.ep4j.error.Ep4jException;
import org.ep4j.error.ErrorCode;

/**
 * Memory of a rank that kernels of other ranks in this process access too. A rank may close while a
 * kernel of another rank still waits for it: freed memory under a running kernel breaks all
 * contexts of the process. Therefore the last holder frees the memory. Other processes map the
 * memory separately and need no hold.
 */
final class SharedRegion {
  /** By the address of their first byte. */
  private static final ConcurrentHashMap<Long, SharedRegion> ALL = new ConcurrentHashMap<>();

  /** Opened again: the context lives as long as its memory. */
  private final CudaDevice device;

  private final DeviceMemory memory;
  private final long address;

  /** Number of holders; guarded by this. */
  private int holders = 1;

  /** A rank's hold on a region. */
  record Hold(SharedRegion region) implements AutoCloseable {
    /** The memory. */
    DeviceMemory memory() {
      return region.memory;
    }

    @Override
    public void close() {
      region.release();
    }
  }

  private SharedRegion(CudaDevice device, DeviceMemory memory) {
    this.device = device;
    this.memory = memory;
    address = memory.address();
  }

  /** Allocates a region; the caller is a holder. */
  static Hold allocate(CudaDevice of, long bytes) {
    CudaDevice device = CudaDevice.open(of.ordinal());
    SharedRegion region = null;
    try {
      region = new SharedRegion(device, DeviceMemory.allocate(device, bytes));
    } finally {
      if (region == null) {
        device.close();
      }
    }
    ALL.put(region.address, region);
    return new Hold(region);
  }

  /**
   * Adds a hold on another rank's region.
   *
   * @throws Ep4jException if the region has no holder any more
   */
  static Hold of(long address, int rank) {
    SharedRegion region = ALL.get(address);
    if (region == null || !region.hold()) {
      throw new Ep4jException(
          ErrorCode.PEER_MEMORY_CLOSED,
          "rank "
              + rank
              + " closed its memory while other ranks mapped it: close and open the buffer on all"
              + " ranks together");
    }
    return new Hold(region);
  }

  private synchronized boolean hold() {
    if (holders == 0) {
      return false;
    }
    holders++;
    return true;
  }

  private synchronized void release() {
    holders--;
    if (holders == 0) {
      ALL.remove(address, this);
      try {
        memory.close();
      } finally {
        device.close();
      }
    }
  }
}
