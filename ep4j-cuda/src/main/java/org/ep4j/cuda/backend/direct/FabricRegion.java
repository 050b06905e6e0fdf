package org.ep4j.cuda.backend.direct;

import java.nio.ByteBuffer;
import java.time.Duration;
import org.ep4j.cuda.backend.PeerRegion;
import org.ep4j.cuda.backend.SymmetricRegion;
import org.ep4j.cuda.driver.CudaDevice;
import org.ep4j.cuda.driver.DeviceMemory;
import org.ep4j.cuda.driver.VmmMemory;
import org.ep4j.cuda.driver.calls.CudaException;
import org.ep4j.error.Ep4jException;
import org.ep4j.error.ErrorCode;
import org.ep4j.memory.Participants;
import org.jspecify.annotations.Nullable;

/**
 * Memory that ranks of several hosts map over NVLink, by fabric handles, ranks of one host
 * included. The driver keeps it until the last importer has closed its mapping.
 */
final class FabricRegion implements SymmetricRegion {
  private static final int MESSAGE_BYTES = Long.BYTES + VmmMemory.FABRIC_HANDLE_BYTES;

  private final CudaDevice device;
  private final VmmMemory own;
  private final DeviceMemory memory;

  /** What other ranks need; made with the region, because no step of an exchange may fail. */
  private final byte[] message;

  FabricRegion(CudaDevice device, long bytes) {
    this.device = device;
    own = VmmMemory.allocate(device, bytes, VmmMemory.Sharing.FABRIC, false);
    boolean complete = false;
    try {
      memory = DeviceMemory.view(device, own.address(), bytes);
      message =
          ByteBuffer.allocate(MESSAGE_BYTES).putLong(own.bytes()).put(own.exportFabric()).array();
      complete = true;
    } finally {
      if (!complete) {
        own.close();
      }
    }
  }

  @Override
  public DeviceMemory memory() {
    return memory;
  }

  @Override
  public @Nullable PeerRegion[] reach(
      Participants participants, boolean[] wanted, Duration timeout) {
    return RegionExchange.run(participants, message, wanted, timeout, this::map);
  }

  private PeerRegion map(ByteBuffer theirs, int rank) {
    long bytes = theirs.getLong();
    byte[] handle = new byte[VmmMemory.FABRIC_HANDLE_BYTES];
    theirs.get(handle);
    try {
      VmmMemory mapped = VmmMemory.importFabric(device, handle, bytes);
      return new MappedRegion(mapped.address(), mapped::close);
    } catch (CudaException e) {
      throw new Ep4jException(
          ErrorCode.PEER_ACCESS_MISSING,
          "the memory of rank "
              + rank
              + " cannot be mapped on "
              + device
              + " by its fabric handle: "
              + e.getMessage()
              + ": check nvidia-imex on both hosts",
          e);
    }
  }

  @Override
  public void close() {
    memory.close();
    own.close();
  }
}
