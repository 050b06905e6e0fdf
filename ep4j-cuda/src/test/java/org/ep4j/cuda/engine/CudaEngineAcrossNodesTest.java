package org.ep4j.cuda.engine;

import java.time.Duration;
import java.util.stream.IntStream;
import org.ep4j.conformance.EngineKit;
import org.ep4j.conformance.world.ThreadWorld;
import org.ep4j.conformance.world.World;

/** Nodes of all sizes, connected through host memory. */
class CudaEngineAcrossNodesTest extends EngineKit {
  @Override
  protected String engine() {
    return "cuda";
  }

  @Override
  protected IntStream worldSizes() {
    return IntStream.of(2, 3, 4, 8);
  }

  @Override
  protected World world() {
    return new ThreadWorld(Duration.ofMinutes(5));
  }

  @Override
  protected String wire() {
    return "staged";
  }

  @Override
  protected boolean masks() {
    return false;
  }
}
