package org.ep4j.nccl;

import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import org.ep4j.config.BackendName;
import org.ep4j.cuda.backend.Backend;
import org.ep4j.cuda.backend.BackendWorld;
import org.ep4j.cuda.backend.PeerCheck;
import org.ep4j.cuda.backend.PutOffer;
import org.ep4j.cuda.backend.PutShape;
import org.ep4j.cuda.backend.SymmetricRegion;
import org.ep4j.error.Ep4jException;

/** The backend with one communicator per buffer. */
final class NcclBackend implements Backend {
  private final BackendWorld world;
  private final NcclCommunicator communicator;

  NcclBackend(BackendWorld world, NcclCommunicator communicator) {
    this.world = world;
    this.communicator = communicator;
  }

  NcclCommunicator communicator() {
    return communicator;
  }

  @Override
  public String name() {
    return BackendName.NCCL;
  }

  @Override
  public BackendWorld world() {
    return world;
  }

  @Override
  public SymmetricRegion allocate(long bytes) {
    long needed = Math.max(bytes, PeerCheck.bytes(size()));
    try (Arena arena = Arena.ofConfined()) {
      MemorySegment out = arena.allocate(ValueLayout.JAVA_LONG);
      int result = NcclCalls.allocate(out.address(), needed);
      if (result != NcclLayouts.SUCCESS) {
        throw NcclException.of(result, NcclFunction.MEM_ALLOC, communicator.handle())
            .ofAllocation(world.device(), needed);
      }
      long address = out.get(ValueLayout.JAVA_LONG, 0);
      return new NcclRegion(world, communicator, address, needed);
    }
  }

  @Override
  public PutOffer offerPuts(SymmetricRegion region, PutShape shape, boolean[] intranode) {
    boolean all = true;
    for (boolean each : intranode) {
      all &= each;
    }
    if (all) {
      return PutOffer.STORES;
    }
    try {
      return new PutOffer(NcclGin.open(world, communicator, (NcclRegion) region, shape), "");
    } catch (Ep4jException e) {
      return new PutOffer(null, String.valueOf(e.getMessage()));
    }
  }

  @Override
  public String refusesReadmission() {
    return "backend 'nccl' cannot readmit ranks, because the ranks of a communicator are fixed:"
        + " close the buffer on all ranks and open it again, or use backend 'direct'";
  }

  @Override
  public void close() {
    communicator.close();
  }
}
