package org.ep4j.cuda.engine;

import java.time.Duration;
import org.ep4j.conformance.SoakKit;
import org.ep4j.conformance.world.ThreadWorld;
import org.ep4j.conformance.world.World;

/** Four ranks, on one device each if available. */
class CudaSoakTest extends SoakKit {
  @Override
  protected String engine() {
    return "cuda";
  }

  @Override
  protected World world() {
    return new ThreadWorld(Duration.ofMinutes(30));
  }

  @Override
  protected int ranks() {
    return 4;
  }
}
