package org.ep4j.cli.bench;

import java.util.OptionalInt;
import org.ep4j.cuda.driver.CudaDevice;
import org.ep4j.cuda.driver.DeviceMemory;
import org.ep4j.cuda.driver.ResourceStack;
import org.ep4j.tensor.Tensor;

/**
 * Tokens where a layer takes them: on the host as they are, or a copy on a GPU.
 *
 * @param memory of the copy
 */
record DeviceTokens(Tensor tokens, ResourceStack memory) implements AutoCloseable {
  /**
   * Tokens for a layer.
   *
   * @param ordinal of the GPU; empty on the host
   */
  static DeviceTokens of(Tensor host, OptionalInt ordinal) {
    var memory = new ResourceStack();
    if (ordinal.isEmpty()) {
      return new DeviceTokens(host, memory);
    }
    CudaDevice device = memory.own(CudaDevice.open(ordinal.getAsInt()));
    DeviceMemory place = memory.own(DeviceMemory.allocate(device, host.byteSize()));
    Tensor tokens = Tensor.ofDevice(place.address(), device.ordinal(), host.dtype(), host.shape());
    tokens.copyFrom(host.segment());
    return new DeviceTokens(tokens, memory);
  }

  @Override
  public void close() {
    memory.close();
  }
}
