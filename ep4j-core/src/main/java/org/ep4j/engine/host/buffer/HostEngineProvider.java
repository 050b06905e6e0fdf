package org.ep4j.engine.host.buffer;

import java.util.Set;
import org.ep4j.BufferSizes;
import org.ep4j.ExpertBuffer;
import org.ep4j.config.BufferConfig;
import org.ep4j.config.EngineName;
import org.ep4j.engine.EngineProvider;
import org.ep4j.engine.host.internode.ScaleOut;
import org.ep4j.engine.host.kernel.RowKernels;
import org.ep4j.group.Group;
import org.ep4j.memory.NonTemporalCopy;

/** The engine for every machine: ranks of one host use loads and stores. */
public final class HostEngineProvider implements EngineProvider {
  /** For {@link java.util.ServiceLoader}. */
  public HostEngineProvider() {}

  @Override
  public String name() {
    return EngineName.HOST;
  }

  @Override
  public int priority() {
    return 0;
  }

  @Override
  public String unavailableBecause() {
    return "";
  }

  @Override
  public String instructions() {
    int bits = RowKernels.get().vectorBits();
    return (bits == 0 ? "no vectors" : bits + "-bit vectors")
        + (NonTemporalCopy.available() ? ", stores around the cache" : "");
  }

  @Override
  public Set<String> wires() {
    return ScaleOut.wires();
  }

  @Override
  public BufferSizes sizes(BufferConfig config, int rank) {
    return HostSizes.of(config, rank);
  }

  @Override
  public ExpertBuffer open(Group group, BufferConfig config) {
    return HostBufferFactory.open(group, config);
  }

  @Override
  public ExpertBuffer rejoin(Group group, BufferConfig config) {
    return HostBufferFactory.rejoin(group, config);
  }
}
