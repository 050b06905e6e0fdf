package org.ep4j.conformance.wire;

import org.ep4j.conformance.world.ProcessWorld;
import org.ep4j.conformance.world.World;

class SharedMemoryWireTest extends WireKit {
  @Override
  protected WireSetup setup() {
    return WireSetup.of("shm");
  }

  @Override
  protected World world() {
    return new ProcessWorld();
  }
}
