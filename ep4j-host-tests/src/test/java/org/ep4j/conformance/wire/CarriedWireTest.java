package org.ep4j.conformance.wire;

import org.ep4j.conformance.world.ThreadWorld;
import org.ep4j.conformance.world.World;

/** The protocol of connections whose bytes a carrier moves. */
class CarriedWireTest extends WireKit {
  @Override
  protected WireSetup setup() {
    return WireSetup.of(CarriedWireProvider.NAME);
  }

  @Override
  protected World world() {
    return new ThreadWorld();
  }
}
