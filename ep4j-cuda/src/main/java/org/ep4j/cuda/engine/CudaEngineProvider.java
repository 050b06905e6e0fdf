package org.ep4j.cuda.engine;

import java.util.Optional;
import java.util.Set;
import java.util.TreeSet;
import org.ep4j.BufferSizes;
import org.ep4j.ExpertBuffer;
import org.ep4j.RoutingCounter;
import org.ep4j.config.BufferConfig;
import org.ep4j.config.EngineName;
import org.ep4j.cuda.backend.Backends;
import org.ep4j.cuda.driver.CudaDevice;
import org.ep4j.cuda.driver.DeviceProperties;
import org.ep4j.cuda.driver.calls.CudaDriver;
import org.ep4j.cuda.driver.calls.LibrarySearch;
import org.ep4j.engine.EngineProvider;
import org.ep4j.engine.RoutingCounterChecks;
import org.ep4j.engine.world.Nodes;
import org.ep4j.group.Group;

/** Registers the CUDA engine with {@link java.util.ServiceLoader}. */
public final class CudaEngineProvider implements EngineProvider {
  private static final int PRIORITY = 10;

  /** Of an H100 or H200, where sizes are asked for on a machine without a GPU. */
  private static final int USUAL_MULTIPROCESSORS = 132;

  /** Used by {@link java.util.ServiceLoader}. */
  public CudaEngineProvider() {}

  @Override
  public String name() {
    return EngineName.CUDA;
  }

  @Override
  public int priority() {
    return PRIORITY;
  }

  @Override
  public String unavailableBecause() {
    LibrarySearch driver = CudaDriver.find();
    if (!driver.found()) {
      return driver.problem();
    }
    return CudaDevice.count() > 0
        ? ""
        : "the CUDA driver shows no device to this process: check CUDA_VISIBLE_DEVICES";
  }

  @Override
  public Set<String> backends() {
    Set<String> names = new TreeSet<>();
    Backends.providers().forEach(provider -> names.add(provider.name()));
    return names;
  }

  @Override
  public BufferSizes sizes(BufferConfig config, int rank) {
    boolean here = unavailableBecause().isEmpty();
    BufferConfig settled = CudaBufferOpening.settled(config);
    return CudaSizes.of(
        settled,
        Nodes.of(settled),
        rank,
        here ? DeviceProperties.of(0).multiprocessors() : USUAL_MULTIPROCESSORS);
  }

  @Override
  public ExpertBuffer open(Group group, BufferConfig config) {
    return CudaBufferOpening.open(group, config);
  }

  @Override
  public ExpertBuffer rejoin(Group group, BufferConfig config) {
    return CudaBufferOpening.rejoin(group, config);
  }

  @Override
  public Optional<RoutingCounter> routingCounter(int device, RoutingCounterChecks checks) {
    return unavailableBecause().isEmpty()
        ? Optional.of(new CudaRoutingCounter(device, checks))
        : Optional.empty();
  }
}
