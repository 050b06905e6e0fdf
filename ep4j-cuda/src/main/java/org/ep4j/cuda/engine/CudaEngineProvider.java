package org.ep4j.cuda.engine;

import java.util.Set;
import java.util.TreeSet;
import org.ep4j.BufferConfig;
import org.ep4j.BufferSizes;
import org.ep4j.EngineName;
import org.ep4j.ExpertBuffer;
import org.ep4j.cuda.backend.Backends;
import org.ep4j.cuda.driver.CudaDevice;
import org.ep4j.cuda.driver.calls.CudaDriver;
import org.ep4j.cuda.driver.calls.LibrarySearch;
import org.ep4j.cuda.engine.context.RegionLayout;
import org.ep4j.cuda.engine.lowlatency.LowLatencyLayout;
import org.ep4j.cuda.engine.throughput.HandleLayout;
import org.ep4j.engine.EngineProvider;
import org.ep4j.engine.Nodes;
import org.ep4j.engine.Rails;
import org.ep4j.group.Group;

/** Registers the CUDA engine with {@link java.util.ServiceLoader}. */
public final class CudaEngineProvider implements EngineProvider {
  private static final int PRIORITY = 10;

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
  public BufferSizes sizes(BufferConfig config) {
    Nodes nodes = Nodes.of(config);
    RegionLayout layout = new RegionLayout(config, nodes);
    int partners = new Rails(nodes, new boolean[nodes.ranks()]).partners(0).length;
    HandleLayout handle = new HandleLayout(config, 0, partners, layout.receiveSlots);
    long latency = config.lowLatency().isPresent() ? new LowLatencyLayout(config, nodes).bytes : 0;
    return new BufferSizes(layout.bytes + latency, handle.deviceBytes, latency);
  }

  @Override
  public ExpertBuffer open(Group group, BufferConfig config) {
    return CudaBufferOpening.open(group, config);
  }

  @Override
  public ExpertBuffer rejoin(Group group, BufferConfig config) {
    return CudaBufferOpening.rejoin(group, config);
  }
}
