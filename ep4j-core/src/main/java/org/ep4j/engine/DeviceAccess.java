package org.ep4j.engine;

import java.lang.foreign.MemorySegment;

/**
 * Memory of devices, and copies between it and the host. Found through {@link
 * java.util.ServiceLoader}; implementations are stateless.
 *
 * <p>A copy moves what the memory holds now and is complete when the call returns. It does not wait
 * for the device: whoever has the memory written by work in a stream waits for that work first, by
 * its event or its stream. Waiting for all work would wait for the kernels of other ranks on the
 * same device too, which may be waiting for this rank.
 */
public interface DeviceAccess {
  /** Number of devices; 0 where none can be used. */
  int devices();

  /**
   * Allocates memory that lives until {@link #free}. Allocating and freeing may wait for all work
   * of the device: not while a rank that shares the device is inside an operation.
   *
   * @param device ordinal
   * @param bytes at least 1
   * @return first byte, a multiple of 256
   */
  long allocate(int device, long bytes);

  /**
   * Gives back what {@link #allocate} returned.
   *
   * @param device ordinal
   * @param address first byte
   */
  void free(int device, long address);

  /**
   * Fills {@code target} from a device.
   *
   * @param device ordinal
   * @param address first byte on the device
   */
  void copyToHost(int device, long address, MemorySegment target);

  /**
   * Copies all of {@code source} to a device.
   *
   * @param device ordinal
   * @param address first byte on the device
   */
  void copyFromHost(int device, long address, MemorySegment source);
}
