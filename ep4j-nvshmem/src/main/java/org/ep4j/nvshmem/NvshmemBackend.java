package org.ep4j.nvshmem;

import org.ep4j.config.BackendName;
import org.ep4j.cuda.backend.Backend;
import org.ep4j.cuda.backend.BackendWorld;
import org.ep4j.cuda.backend.PeerCheck;
import org.ep4j.cuda.backend.PutOffer;
import org.ep4j.cuda.backend.PutShape;
import org.ep4j.cuda.backend.SymmetricRegion;
import org.ep4j.error.Ep4jException;

/** One buffer's use of the process-wide NVSHMEM runtime. */
final class NvshmemBackend implements Backend {
  private static final long ALIGNMENT = 4096;

  private final BackendWorld world;
  private boolean closed;

  NvshmemBackend(BackendWorld world) {
    this.world = world;
  }

  @Override
  public String name() {
    return BackendName.NVSHMEM;
  }

  @Override
  public BackendWorld world() {
    return world;
  }

  @Override
  public SymmetricRegion allocate(long bytes) {
    long needed = Math.max(bytes, PeerCheck.bytes(size()));
    return new NvshmemRegion(world, NvshmemRuntime.allocate(world, ALIGNMENT, needed), needed);
  }

  @Override
  public PutOffer offerPuts(SymmetricRegion region, PutShape shape, boolean[] intranode) {
    try {
      return new PutOffer(
          new NvshmemPutTransport(
              NvshmemDevice.parts(world.device().architecture()), region.memory().address()),
          "");
    } catch (Ep4jException e) {
      return new PutOffer(null, String.valueOf(e.getMessage()));
    }
  }

  @Override
  public String refusesReadmission() {
    return "backend 'nvshmem' cannot readmit ranks, because the ranks of NVSHMEM are fixed:"
        + " restart all ranks, or use backend 'direct'";
  }

  @Override
  public void close() {
    if (!closed) {
      closed = true;
      NvshmemRuntime.stop(world);
    }
  }
}
