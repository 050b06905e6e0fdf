package org.ep4j.nccl;

import java.time.Duration;
import org.ep4j.conformance.world.ThreadWorld;
import org.ep4j.conformance.world.World;

class NcclWireOnThreadsTest extends NcclWireKit {
  @Override
  protected World world() {
    return new ThreadWorld(Duration.ofMinutes(5));
  }
}
