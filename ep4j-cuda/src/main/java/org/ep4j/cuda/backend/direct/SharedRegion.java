package org.ep4j.cuda.backend.direct;

import java.util.concurrent.ConcurrentHashMap;
import org.ep4j.Ep4jException;
import org.ep4j.cuda.driver.CudaDevice;
import org.ep4j.cuda.driver.DeviceMemory;

/**
 * Memory of a rank that kernels of the ranks beside it in this process reach too. A rank may close
 * while another one's kernel still waits for it, until that gives up: memory freed under a kernel
 * is the end of all contexts of the process. So whoever lets go of it last frees it. The memory of
 * other processes needs none of this: they have it mapped.
 */
final class SharedRegion {
  /** By their first byte. */
  private static final ConcurrentHashMap<Long, SharedRegion> ALL = new ConcurrentHashMap<>();

  /** Opened once more: the context lives as long as its memory. */
  private final CudaDevice device;

  private final DeviceMemory memory;
  private final long address;

  /** Ranks that hold it; guarded by this. */
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

  /** Allocates a region; the caller holds it. */
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
   * Takes hold of another rank's region.
   *
   * @throws Ep4jException if nobody holds it any more
   */
  static Hold of(long address, int rank) {
    SharedRegion region = ALL.get(address);
    if (region == null || !region.hold()) {
      throw new Ep4jException(
          "rank " + rank + " has closed its memory while the others were mapping it");
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
