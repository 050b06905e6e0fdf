package org.ep4j.cuda.internode;

import java.lang.foreign.MemorySegment;
import java.time.Duration;
import org.ep4j.cuda.backend.BackendWorld;
import org.ep4j.cuda.driver.CudaDevice;
import org.ep4j.cuda.driver.DeviceMemory;
import org.ep4j.cuda.driver.ResourceStack;
import org.ep4j.cuda.driver.VmmMemory;
import org.ep4j.cuda.driver.calls.FileDescriptors;
import org.ep4j.error.EngineUnavailableException;
import org.ep4j.error.ErrorCode;
import org.ep4j.wire.Region;
import org.ep4j.wire.Wire;
import org.ep4j.wire.WireMemory;

/**
 * Memory of the GPU that network cards write. The counters of arrived data stay on the host: a host
 * thread increments them after it has seen a completion of the card, and kernels read the counter
 * and then the bytes. The two reach the GPU on different routes, so the GPU must order them.
 */
final class DeviceReceiveMemory implements ReceiveMemory {
  private final ResourceStack owned = new ResourceStack();
  private final DeviceMemory memory;
  private final Region region;

  /**
   * Allocates it, zeroed; collective.
   *
   * @throws org.ep4j.error.Ep4jException on all ranks if one has no such memory or its wire does
   *     not support it; names the rank and the reason
   */
  DeviceReceiveMemory(BackendWorld world, Wire wire, long bytes, Duration timeout) {
    boolean complete = false;
    try {
      WireMemory given =
          world.together(
              bytes + " bytes for GPUDirect over wire '" + wire.name() + "'",
              () -> allocate(world.device(), bytes));
      memory = DeviceMemory.view(world.device(), given.address(), bytes);
      // Owned last: the wire must release the memory before it is freed.
      region = owned.own(wire.expose(given, timeout));
      complete = true;
    } finally {
      if (!complete) {
        owned.close();
      }
    }
  }

  private WireMemory allocate(CudaDevice device, long bytes) {
    if (!device.properties().ordersRemoteWrites()) {
      throw new EngineUnavailableException(
          ErrorCode.GPUDIRECT_UNSUPPORTED,
          device
              + " does not order writes of network cards before later reads of kernels: turn"
              + " GPUDirect off");
    }
    VmmMemory made = owned.own(VmmMemory.allocate(device, bytes, VmmMemory.Sharing.NONE, true));
    DeviceMemory.view(device, made.address(), bytes).zero(0, bytes);
    int dmaBuf = WireMemory.NO_DMA_BUF;
    if (device.properties().dmaBuf()) {
      int descriptor = made.exportDmaBuf();
      owned.own(() -> FileDescriptors.close(descriptor));
      dmaBuf = descriptor;
    }
    return WireMemory.device(made.address(), bytes, device.ordinal(), dmaBuf);
  }

  @Override
  public Region region() {
    return region;
  }

  @Override
  public long address() {
    return memory.address();
  }

  @Override
  public void clear() {
    memory.zero(0, memory.bytes());
  }

  @Override
  public void setWord(long offset, long value) {
    memory.copyFrom(offset, MemorySegment.ofArray(new long[] {value}));
  }

  @Override
  public void close() {
    owned.close();
  }
}
