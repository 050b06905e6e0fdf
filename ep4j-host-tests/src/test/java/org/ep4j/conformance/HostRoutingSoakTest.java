package org.ep4j.conformance;

import java.time.Duration;

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
