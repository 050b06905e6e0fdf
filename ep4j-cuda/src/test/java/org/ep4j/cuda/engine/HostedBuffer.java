package org.ep4j.cuda.engine;

import org.ep4j.ExpertBuffer;
import org.ep4j.config.BufferConfig;
import org.ep4j.group.Group;
import org.ep4j.routing.ExpertPlacement;

/** Opens a buffer on a rank of which a test says on which host it runs. */
public final class HostedBuffer {
  private HostedBuffer() {}

  /** Collective. */
  public static ExpertBuffer open(Group group, BufferConfig config, String host) {
    ExpertPlacement placement = ExpertPlacement.blocks(config.experts(), group.size());
    BufferConfig settled = config.toBuilder().placement(placement).build();
    return group.together("opening a buffer", () -> CudaBufferOpening.open(group, settled, host));
  }
}
