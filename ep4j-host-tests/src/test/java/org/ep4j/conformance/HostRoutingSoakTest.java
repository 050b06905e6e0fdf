package org.ep4j.conformance;

import java.time.Duration;
import org.ep4j.conformance.world.ThreadWorld;
import org.ep4j.conformance.world.World;

class HostRoutingSoakTest extends SoakKit {
  @Override
  protected String engine() {
    return "host";
  }

  @Override
  protected World world() {
    return new ThreadWorld(Duration.ofMinutes(20));
  }

  @Override
  protected int ranks() {
    return 3;
  }
}
