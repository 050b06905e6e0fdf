package org.ep4j.nccl;

import java.time.Duration;
import org.ep4j.conformance.world.ProcessWorld;
import org.ep4j.conformance.world.World;

class NcclWireOnProcessesTest extends NcclWireKit {
  @Override
  protected World world() {
    return new ProcessWorld(Duration.ofMinutes(5), Duration.ofSeconds(10));
  }
}
