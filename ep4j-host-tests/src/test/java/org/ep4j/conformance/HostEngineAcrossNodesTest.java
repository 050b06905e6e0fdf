package org.ep4j.conformance;

import org.ep4j.conformance.world.ThreadWorld;
import org.ep4j.conformance.world.World;

/** Ranks of several nodes, of random sizes, over the wire inside a JVM. */
class HostEngineAcrossNodesTest extends EngineKit {
  @Override
  protected String engine() {
    return "host";
  }

  @Override
  protected String wire() {
    return "inproc";
  }

  @Override
  protected World world() {
    return new ThreadWorld();
  }
}
