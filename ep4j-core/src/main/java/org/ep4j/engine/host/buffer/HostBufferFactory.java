package org.ep4j.engine.host.buffer;

import java.util.function.Supplier;
import org.ep4j.config.BufferConfig;
import org.ep4j.engine.host.layout.RegionLayout;
import org.ep4j.engine.world.AgreedStep;
import org.ep4j.engine.world.ConfigAgreement;
import org.ep4j.engine.world.Nodes;
import org.ep4j.engine.world.SurvivorAgreement;
import org.ep4j.group.Group;
import org.jspecify.annotations.Nullable;

/** Opens buffers of the host engine. */
final class HostBufferFactory {
  private HostBufferFactory() {}

  /** Opens a buffer on every rank; collective. */
  static HostBuffer open(Group group, BufferConfig config) {
    Nodes nodes = ConfigAgreement.require(group, config);
    RegionLayout layout = new RegionLayout(config);
    HostMemory memory = HostMemory.allocate(group, nodes, layout, config.timeout());
    return finish(group, config, nodes, layout, memory, null);
  }

  /** Opens the buffer of a rank that rejoins; collective with readmit() on the other ranks. */
  static HostBuffer rejoin(Group group, BufferConfig config) {
    try (SurvivorAgreement agreement =
        SurvivorAgreement.ofNewcomer(group, config, Recovery.AGREED_WORDS)) {
      Nodes nodes = agreement.nodes();
      RegionLayout layout = new RegionLayout(config);
      HostMemory memory =
          HostMemory.rejoin(
              agreement.participants(), nodes, layout, config.timeout().multipliedBy(2));
      return finish(group, config, nodes, layout, memory, agreement);
    }
  }

  private static HostBuffer finish(
      Group group,
      BufferConfig config,
      Nodes nodes,
      RegionLayout layout,
      HostMemory memory,
      @Nullable SurvivorAgreement agreement) {
    HostBuffer buffer = null;
    boolean done = false;
    try {
      Supplier<HostBuffer> step = () -> new HostBuffer(group, config, nodes, layout, memory);
      buffer =
          agreement == null
              ? AgreedStep.run(group, config.timeout(), step, HostBuffer::close)
              : agreement.step(step, HostBuffer::close);
      buffer.connect(agreement);
      done = true;
      return buffer;
    } finally {
      if (!done) {
        if (buffer == null) {
          memory.close();
        } else {
          buffer.close();
        }
      }
    }
  }
}
