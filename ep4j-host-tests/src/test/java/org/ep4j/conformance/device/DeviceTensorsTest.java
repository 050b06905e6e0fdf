package org.ep4j.conformance.device;

import static org.assertj.core.api.Assertions.assertThat;

import java.util.stream.IntStream;
import org.ep4j.conformance.EngineKit;
import org.ep4j.conformance.SoakKit;
import org.ep4j.conformance.VectorKit;
import org.ep4j.conformance.world.ThreadWorld;
import org.ep4j.conformance.world.World;
import org.ep4j.engine.Devices;
import org.junit.jupiter.api.Nested;
import org.junit.jupiter.api.Test;

/** The kits with an engine whose tensors are on devices. */
class DeviceTensorsTest {
  @Test
  void devicesAreCounted() {
    assertThat(Devices.count()).isEqualTo(2);
  }

  /** Random cases. */
  @Nested
  class RandomCasesTest extends EngineKit {
    @Override
    protected String engine() {
      return HostMemoryEngine.NAME;
    }

    @Override
    protected boolean lowLatency() {
      return false;
    }

    @Override
    protected IntStream worldSizes() {
      return IntStream.of(1, 2, 5);
    }

    @Override
    protected int cases() {
      return 30;
    }

    @Override
    protected World world() {
      return new ThreadWorld();
    }
  }

  /** Recorded vectors. */
  @Nested
  class VectorsTest extends VectorKit {
    @Override
    protected String engine() {
      return HostMemoryEngine.NAME;
    }

    @Override
    protected boolean lowLatency() {
      return false;
    }

    @Override
    protected World world() {
      return new ThreadWorld();
    }
  }

  /** Many routings. */
  @Nested
  class RoutingSoakTest extends SoakKit {
    @Override
    protected String engine() {
      return HostMemoryEngine.NAME;
    }

    @Override
    protected World world() {
      return new ThreadWorld();
    }

    @Override
    protected int ranks() {
      return 2;
    }
  }
}
