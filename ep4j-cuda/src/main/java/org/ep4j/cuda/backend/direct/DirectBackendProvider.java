package org.ep4j.cuda.backend.direct;

import java.util.List;
import org.ep4j.config.BackendName;
import org.ep4j.cuda.backend.Backend;
import org.ep4j.cuda.backend.BackendProbe;
import org.ep4j.cuda.backend.BackendProvider;
import org.ep4j.cuda.backend.BackendWorld;
import org.ep4j.cuda.driver.calls.CudaDriver;
import org.ep4j.cuda.driver.calls.LibrarySearch;

/** Registers the backend {@code direct} with {@link java.util.ServiceLoader}. */
public final class DirectBackendProvider implements BackendProvider {
  /** Used by {@link java.util.ServiceLoader}. */
  public DirectBackendProvider() {}

  @Override
  public String name() {
    return BackendName.DIRECT;
  }

  @Override
  public BackendProbe probe() {
    LibrarySearch driver = CudaDriver.find();
    // No version: drivers of different versions share memory.
    return driver.found()
        ? BackendProbe.found("", driver.library(), List.of())
        : BackendProbe.failed(driver.problem());
  }

  @Override
  public Backend open(BackendWorld world, byte[] id) {
    return new DirectBackend(world);
  }
}
