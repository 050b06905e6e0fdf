package org.ep4j.conformance;

import java.time.Duration;
import org.ep4j.conformance.world.ThreadWorld;
import org.ep4j.conformance.world.World;

/** Three ranks in two nodes, every routing and every byte, over TCP. */
class HostSoakAcrossNodesTest extends SoakKit {
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

  @Override
  protected int ranksPerNode() {
    return 2;
  }

  @Override
  protected String wire() {
    return "tcp";
  }
}
