package org.ep4j.engine;

import java.lang.foreign.MemorySegment;

/**
 * Copies between the host and devices, for tensors that lie on a device. Found through {@link
 * java.util.ServiceLoader}; implementations are stateless. Every copy waits for all work of the
 * device first, and is complete when the call returns.
 */
public interface DeviceAccess {
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
