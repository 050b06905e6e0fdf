package org.ep4j.cuda.engine;

import java.time.Duration;
import java.util.stream.IntStream;
import org.ep4j.conformance.EngineKit;
import org.ep4j.conformance.ResetKit;
import org.ep4j.conformance.VectorKit;
import org.ep4j.conformance.world.ThreadWorld;
import org.ep4j.conformance.world.World;
import org.junit.jupiter.api.Nested;

/**
 * GPU memory as the target of transfers between nodes. The wire is {@code
 * org.ep4j.cuda.internode.CopyingWire}: copy engines instead of network cards.
 */
class GpuDirectTest {
  private static final String WIRE = "copying";

  private static World threads() {
    return new ThreadWorld(Duration.ofMinutes(5));
  }

  /** Nodes of all sizes. */
  @Nested
  class AnyNodes extends EngineKit {
    @Override
    protected String engine() {
      return "cuda";
    }

    @Override
    protected IntStream worldSizes() {
      return IntStream.of(2, 3, 4);
    }

    @Override
    protected int cases() {
      return 60;
    }

    @Override
    protected World world() {
      return threads();
    }

    @Override
    protected String wire() {
      return WIRE;
    }

    @Override
    protected boolean masks() {
      return false;
    }
  }

  /** Two ranks per node. */
  @Nested
  class RecordedVectors extends VectorKit {
    @Override
    protected String engine() {
      return "cuda";
    }

    @Override
    protected World world() {
      return threads();
    }

    @Override
    protected int ranksPerNode() {
      return 2;
    }

    @Override
    protected String wire() {
      return WIRE;
    }
  }

  /** Missed deadlines: memory of the GPU begins anew. */
  @Nested
  class Resets extends ResetKit {
    @Override
    protected String engine() {
      return "cuda";
    }

    @Override
    protected World world() {
      return threads();
    }

    @Override
    protected int ranksPerNode() {
      return 2;
    }

    @Override
    protected String wire() {
      return WIRE;
    }
  }
}
