package org.ep4j.conformance.device;

import static java.util.Objects.requireNonNull;

import org.ep4j.BufferSizes;
import org.ep4j.ExpertBuffer;
import org.ep4j.config.BufferConfig;
import org.ep4j.engine.EngineProvider;
import org.ep4j.engine.Engines;
import org.ep4j.error.EngineUnavailableException;
import org.ep4j.error.ErrorCode;
import org.ep4j.group.Group;

/**
 * The host engine as an engine of {@link HostMemoryDevices}: without low-latency operations, with
 * results on a device.
 */
public final class HostMemoryEngine implements EngineProvider {
  static final String NAME = "host-memory-device";

  /** Used by {@link java.util.ServiceLoader}. */
  public HostMemoryEngine() {}

  @Override
  public String name() {
    return NAME;
  }

  @Override
  public int priority() {
    return -1;
  }

  @Override
  public String unavailableBecause() {
    return "";
  }

  @Override
  public BufferSizes sizes(BufferConfig config, int rank) {
    return Engines.sizes(host(config), requireNonNull(config.placement(), "settled").ranks());
  }

  @Override
  public ExpertBuffer open(Group group, BufferConfig config) {
    if (config.lowLatency().isPresent()) {
      throw new EngineUnavailableException(
          ErrorCode.ENGINE_UNAVAILABLE, "engine " + NAME + " has no low-latency operations");
    }
    return new HostMemoryBuffer(Engines.open(group, host(config)), group.rank() % 2);
  }

  @Override
  public ExpertBuffer rejoin(Group group, BufferConfig config) {
    return new HostMemoryBuffer(Engines.rejoin(group, host(config)), group.rank() % 2);
  }

  private static BufferConfig host(BufferConfig config) {
    return config.toBuilder().engine("host").build();
  }
}
