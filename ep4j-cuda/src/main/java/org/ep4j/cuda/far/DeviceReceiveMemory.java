package org.ep4j.cuda.far;

import java.lang.foreign.MemorySegment;
import java.time.Duration;
import org.ep4j.EngineUnavailableException;
import org.ep4j.cuda.backend.BackendWorld;
import org.ep4j.cuda.driver.CudaDevice;
import org.ep4j.cuda.driver.DeviceMemory;
import org.ep4j.cuda.driver.FileDescriptors;
import org.ep4j.cuda.driver.ResourceStack;
import org.ep4j.cuda.driver.VmmMemory;
import org.ep4j.wire.Region;
import org.ep4j.wire.Wire;
import org.ep4j.wire.WireMemory;

/**
 * Memory of the GPU that network cards write. The counters of what has arrived stay on the host: a
 * thread of the host counts, having seen that a card is done, and kernels read the count and then
 * the bytes, which came another way. So the GPU has to order the two.
 */
final class DeviceReceiveMemory implements ReceiveMemory {
  private final ResourceStack owned = new ResourceStack();
  private final DeviceMemory memory;
  private final Region region;

  /**
   * Allocates it, zeroed; collective.
   *
   * @throws org.ep4j.Ep4jException on all ranks, if one has no such memory or its wire does not
   *     take it; says which, and why
   */
  DeviceReceiveMemory(BackendWorld world, Wire wire, long bytes, Duration timeout) {
    boolean complete = false;
    try {
      WireMemory given =
          world.together(
              "GPUDirect over wire '%s' has no memory".formatted(wire.name()),
              () -> allocate(world.device(), bytes));
      memory = DeviceMemory.view(world.device(), given.address(), bytes);
      // Owned last: the wire lets go of the memory before it is freed.
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
          device
              + " does not order what network cards write before what kernels read next: turn"
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
