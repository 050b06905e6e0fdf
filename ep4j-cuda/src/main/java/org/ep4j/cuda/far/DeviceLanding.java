package org.ep4j.cuda.far;

import java.lang.foreign.MemorySegment;
import java.time.Duration;
import org.ep4j.Ep4jException;
import org.ep4j.cuda.driver.CudaDevice;
import org.ep4j.cuda.driver.CudaStream;
import org.ep4j.cuda.driver.DeviceCopies;
import org.ep4j.cuda.driver.FileDescriptors;
import org.ep4j.cuda.driver.ResourceStack;
import org.ep4j.cuda.driver.VmmMemory;
import org.ep4j.group.Group;
import org.ep4j.wire.Region;
import org.ep4j.wire.Wire;
import org.ep4j.wire.WireMemory;
import org.ep4j.wire.support.Agreement;

/**
 * Memory of the GPU that network cards write. The counters of what has arrived stay on the host: a
 * thread of the host counts, having seen that a card is done, and kernels read the count and then
 * the bytes, which came another way. So the GPU has to order the two.
 */
final class DeviceLanding implements LandingMemory {
  private final ResourceStack owned = new ResourceStack();
  private final CudaDevice device;
  private final Region region;
  private long address;

  /**
   * Allocates it, zeroed; collective.
   *
   * @throws org.ep4j.wire.WireException on all ranks, if one cannot; says which, and why
   */
  DeviceLanding(Group group, Wire wire, CudaDevice device, long bytes, Duration timeout) {
    this.device = device;
    boolean complete = false;
    try {
      WireMemory memory = WireMemory.device(0, 0, device.ordinal());
      String problem = "";
      try {
        memory = allocate(wire, bytes);
      } catch (Ep4jException e) {
        problem = String.valueOf(e.getMessage());
      }
      byte[][] ignored = Agreement.exchange(group, problem, new byte[0], timeout);
      // Owned last: the wire lets go of the memory before it is freed.
      region = owned.own(wire.expose(memory, timeout));
      complete = true;
    } finally {
      if (!complete) {
        owned.close();
      }
    }
  }

  private WireMemory allocate(Wire wire, long bytes) {
    if (!device.properties().ordersRemoteWrites()) {
      throw new Ep4jException(
          "wire '%s' is to carry memory of %s, which does not order what network cards write before what kernels read next: turn GPUDirect off"
              .formatted(wire.name(), device));
    }
    VmmMemory memory = owned.own(VmmMemory.allocate(device, bytes, VmmMemory.Sharing.NONE, true));
    address = memory.address();
    clear(bytes);
    int dmaBuf = WireMemory.NO_DMA_BUF;
    if (device.properties().dmaBuf()) {
      int descriptor = memory.exportDmaBuf();
      owned.own(() -> FileDescriptors.close(descriptor));
      dmaBuf = descriptor;
    }
    return WireMemory.device(address, bytes, device.ordinal(), dmaBuf);
  }

  @Override
  public Region region() {
    return region;
  }

  @Override
  public long address() {
    return address;
  }

  @Override
  public void clear() {
    clear(region.bytes());
  }

  private void clear(long bytes) {
    device.makeCurrent();
    try (CudaStream stream = CudaStream.create(device)) {
      DeviceCopies.fill8(address, (byte) 0, bytes, stream);
      stream.synchronize();
    }
  }

  @Override
  public void setWord(long offset, long value) {
    DeviceCopies.toDevice(device, address + offset, MemorySegment.ofArray(new long[] {value}));
  }

  @Override
  public void close() {
    owned.close();
  }
}
