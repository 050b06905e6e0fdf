package org.ep4j.cuda.backend.direct;

import org.ep4j.config.BackendName;
import org.ep4j.cuda.backend.Backend;
import org.ep4j.cuda.backend.BackendWorld;
import org.ep4j.cuda.backend.SymmetricRegion;

/** Owns nothing: its regions own their memory. */
final class DirectBackend implements Backend {
  private final BackendWorld world;

  DirectBackend(BackendWorld world) {
    this.world = world;
  }

  @Override
  public String name() {
    return BackendName.DIRECT;
  }

  @Override
  public BackendWorld world() {
    return world;
  }

  @Override
  public SymmetricRegion allocate(long bytes) {
    SharedRegion.Hold memory = SharedRegion.allocate(world.device(), bytes);
    DirectRegion region = null;
    try {
      region = new DirectRegion(world.device(), world.participants().group().inProcess(), memory);
      return region;
    } finally {
      if (region == null) {
        memory.close();
      }
    }
  }

  @Override
  public SymmetricRegion allocateAcrossHosts(long bytes) {
    return new FabricRegion(world.device(), bytes);
  }

  @Override
  public String refusesReadmission() {
    return "";
  }

  @Override
  public void close() {}
}
