package org.ep4j.nvshmem;

import java.time.Duration;
import org.ep4j.cuda.backend.BackendWorld;
import org.ep4j.cuda.backend.PeerCheck;
import org.ep4j.cuda.backend.PeerRegion;
import org.ep4j.cuda.backend.SymmetricRegion;
import org.ep4j.cuda.driver.DeviceMemory;
import org.ep4j.memory.Participants;
import org.jspecify.annotations.Nullable;

/** Memory of NVSHMEM's symmetric heap. */
final class NvshmemRegion implements SymmetricRegion {
  private final BackendWorld world;
  private final DeviceMemory memory;
  private boolean closed;

  NvshmemRegion(BackendWorld world, long address, long bytes) {
    this.world = world;
    memory = DeviceMemory.view(world.device(), address, bytes);
  }

  @Override
  public DeviceMemory memory() {
    return memory;
  }

  @Override
  public @Nullable PeerRegion[] reach(
      Participants participants, boolean[] wanted, Duration timeout) {
    @Nullable PeerRegion[] peers = new PeerRegion[wanted.length];
    String problem = "";
    for (int r = 0; r < wanted.length && problem.isEmpty(); r++) {
      if (wanted[r]) {
        long address = NvshmemCalls.peer(memory.address(), r);
        peers[r] = new Address(address);
        if (address == 0) {
          problem =
              "NVSHMEM does not reach the memory of rank "
                  + r
                  + " by load and store: ranks of one node need GPUs with NVLink or PCIe peer"
                  + " access, and NVSHMEM_DISABLE_P2P unset";
        }
      }
    }
    world.agree(problem);
    PeerCheck.check(world, memory, peers);
    return peers;
  }

  /** Owns nothing: the memory is freed with the region. */
  private record Address(long address) implements PeerRegion {
    @Override
    public void close() {}
  }

  @Override
  public void close() {
    if (!closed) {
      closed = true;
      long address = memory.address();
      memory.close();
      NvshmemRuntime.free(world, address);
    }
  }
}
