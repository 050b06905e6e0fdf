package org.ep4j.conformance;

import org.ep4j.conformance.world.ProcessWorld;
import org.ep4j.conformance.world.World;

class HostVectorsOnProcessesTest extends VectorKit {
  @Override
  protected String engine() {
    return "host";
  }

  @Override
  protected World world() {
    return new ProcessWorld();
  }
}
