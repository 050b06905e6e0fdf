package org.ep4j.engine;

import java.lang.foreign.MemorySegment;
import java.util.OptionalInt;

/**
 * Memory of devices, and copies between that memory and the host. Found through {@link
 * java.util.ServiceLoader}; implementations are stateless.
 *
 * <p>A copy moves the current content of the memory and is complete when the call returns. It does
 * not wait for the device: a caller whose stream writes the memory waits for that stream or its
 * event first. A wait for all work would also wait for kernels of other ranks on the same device,
 * which may be waiting for this rank.
 */
public interface DeviceAccess {
  /** Number of devices; 0 where none can be used. */
  int devices();

  /**
   * The device whose memory holds an address, if the host cannot read or write it there. Empty for
   * all memory of the host, page-locked too, for memory that the driver migrates to the host, and
   * where no device can be used.
   *
   * @param address of a byte
   */
  OptionalInt deviceOf(long address);

  /**
   * Allocates memory that lives until {@link #free}. Allocating and freeing may wait for all work
   * of the device: do not call them while a rank that shares the device is inside an operation.
   *
   * @param device ordinal
   * @param bytes at least 1
   * @return first byte, a multiple of 256
   */
  long allocate(int device, long bytes);

  /**
   * Frees memory of {@link #allocate}.
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
