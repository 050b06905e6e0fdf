package org.ep4j.cuda.backend.direct;

import java.nio.ByteBuffer;
import java.time.Duration;
import org.ep4j.cuda.backend.PeerRegion;
import org.ep4j.cuda.backend.SymmetricRegion;
import org.ep4j.cuda.driver.CudaDevice;
import org.ep4j.cuda.driver.DeviceMemory;
import org.ep4j.cuda.driver.IpcMemory;
import org.ep4j.cuda.driver.ResourceStack;
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
    byte[][] all = participants.group().allGather(message, timeout);
    @Nullable PeerRegion[] reached = new PeerRegion[participants.ranks()];
    ResourceStack held = new ResourceStack();
    boolean complete = false;
    try {
      for (int i = 0; i < all.length; i++) {
        int r = participants.number(i);
        if (wanted[r]) {
          reached[r] = held.own(reach(ByteBuffer.wrap(all[i]), r));
        }
      }
      complete = true;
      return reached;
    } finally {
      if (!complete) {
        held.close();
      }
    }
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
      return new Held(address, SharedRegion.of(address, rank));
    }
    byte[] handle = new byte[IpcMemory.HANDLE_BYTES];
    message.get(handle);
    try {
      return new Mapped(IpcMemory.open(device, handle));
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

  /** Region of a rank in this process. */
  private record Held(long address, SharedRegion.Hold hold) implements PeerRegion {
    @Override
    public void close() {
      hold.close();
    }
  }

  /** Region of another process. */
  private record Mapped(IpcMemory memory) implements PeerRegion {
    @Override
    public long address() {
      return memory.address();
    }

    @Override
    public void close() {
      memory.close();
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
