package org.ep4j.conformance;

import org.ep4j.conformance.world.ThreadWorld;
import org.ep4j.conformance.world.World;

class HostEngineOnThreadsTest extends EngineKit {
  @Override
  protected String engine() {
    return "host";
  }

  @Override
  protected World world() {
    return new ThreadWorld();
  }
}
