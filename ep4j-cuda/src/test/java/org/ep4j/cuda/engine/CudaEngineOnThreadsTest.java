package org.ep4j.cuda.engine;

import java.time.Duration;
import java.util.stream.IntStream;
import org.ep4j.conformance.EngineKit;
import org.ep4j.conformance.world.ThreadWorld;
import org.ep4j.conformance.world.World;

/** Ranks use the devices round-robin, so that worlds of all sizes run on any number of devices. */
class CudaEngineOnThreadsTest extends EngineKit {
  @Override
  protected String engine() {
    return "cuda";
  }

  @Override
  protected IntStream worldSizes() {
    return IntStream.of(1, 2, 3, 4, 8);
  }

  @Override
  protected World world() {
    return new ThreadWorld(Duration.ofMinutes(5));
  }
}
