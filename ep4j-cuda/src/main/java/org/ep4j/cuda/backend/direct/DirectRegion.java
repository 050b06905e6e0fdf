package org.ep4j.cuda.backend.direct;

import java.nio.ByteBuffer;
import java.time.Duration;
import org.ep4j.cuda.backend.PeerRegion;
import org.ep4j.cuda.backend.SymmetricRegion;
import org.ep4j.cuda.driver.CudaDevice;
import org.ep4j.cuda.driver.DeviceMemory;
import org.ep4j.cuda.driver.IpcMemory;
import org.ep4j.cuda.driver.calls.CudaException;
import org.ep4j.error.Ep4jException;
import org.ep4j.error.ErrorCode;
import org.ep4j.memory.Participants;
import org.jspecify.annotations.Nullable;

/**
 * A plain allocation. Ranks in one process exchange its address, ranks in several processes an IPC
 * handle.
 */
final class DirectRegion implements SymmetricRegion {
  private static final int MESSAGE_BYTES = Integer.BYTES + Long.BYTES + IpcMemory.HANDLE_BYTES;

  private final CudaDevice device;
  private final boolean inProcess;
  private final SharedRegion.Hold region;

  /** What other ranks need; made with the region, because no step of an exchange may fail. */
  private final byte[] message;

  private boolean closed;

  DirectRegion(CudaDevice device, boolean inProcess, SharedRegion.Hold region) {
    this.device = device;
    this.inProcess = inProcess;
    this.region = region;
    message = message();
  }

  @Override
  public DeviceMemory memory() {
    return region.memory();
  }

  @Override
  public @Nullable PeerRegion[] reach(
      Participants participants, boolean[] wanted, Duration timeout) {
    return RegionExchange.run(participants, message, wanted, timeout, this::reach);
  }

  private byte[] message() {
    return ByteBuffer.allocate(MESSAGE_BYTES)
        .putInt(device.ordinal())
        .putLong(memory().address())
        .put(IpcMemory.export(memory()))
        .array();
  }

  private PeerRegion reach(ByteBuffer message, int rank) {
    int ordinal = message.getInt();
    long address = message.getLong();
    if (inProcess) {
      reach(ordinal, rank);
      return new MappedRegion(address, SharedRegion.of(address, rank)::close);
    }
    byte[] handle = new byte[IpcMemory.HANDLE_BYTES];
    message.get(handle);
    try {
      IpcMemory memory = IpcMemory.open(device, handle);
      return new MappedRegion(memory.address(), memory::close);
    } catch (CudaException e) {
      throw new Ep4jException(
          ErrorCode.PEER_ACCESS_MISSING,
          "the memory of rank " + rank + " cannot be mapped on " + device + ": " + e.getMessage(),
          e);
    }
  }

  private void reach(int ordinal, int rank) {
    if (ordinal == device.ordinal()) {
      return;
    }
    if (!CudaDevice.canAccess(device.ordinal(), ordinal)) {
      throw new Ep4jException(
          ErrorCode.PEER_ACCESS_MISSING,
          device
              + " cannot reach the memory of device "
              + ordinal
              + " of rank "
              + rank
              + ": use GPUs with peer access for the ranks of a node (NVLink, or PCIe if the system"
              + " supports it)");
    }
    try (CudaDevice peer = CudaDevice.open(ordinal)) {
      device.enablePeerAccess(peer);
    }
  }

  @Override
  public void close() {
    if (!closed) {
      closed = true;
      region.close();
    }
  }
}
