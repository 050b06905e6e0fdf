package org.ep4j.conformance.samebits;

import org.ep4j.config.EngineName;
import org.ep4j.conformance.SameBitsKit;
import org.ep4j.conformance.world.TestScale;

class SameBitsTest extends SameBitsKit {
  @Override
  protected String engine() {
    return EngineName.HOST;
  }

  @Override
  protected int worlds() {
    return TestScale.of(40, 2500);
  }

  @Override
  protected int casesOfWorld() {
    return TestScale.of(2, 4);
  }
}
