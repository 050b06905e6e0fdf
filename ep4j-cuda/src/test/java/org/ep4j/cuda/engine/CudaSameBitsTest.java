package org.ep4j.cuda.engine;

import org.ep4j.config.EngineName;
import org.ep4j.conformance.SameBitsKit;
import org.ep4j.conformance.world.TestScale;
import org.ep4j.cuda.driver.Gpu;
import org.junit.jupiter.api.BeforeEach;

/** Ranks share the devices. */
class CudaSameBitsTest extends SameBitsKit {
  @BeforeEach
  void needsGpu() {
    Gpu.require(1);
  }

  @Override
  protected String engine() {
    return EngineName.CUDA;
  }

  @Override
  protected int worlds() {
    return TestScale.of(40, 100);
  }

  @Override
  protected int casesOfWorld() {
    return TestScale.of(2, 100);
  }
}
