package org.ep4j.conformance.faults;

import org.ep4j.conformance.EngineKit;
import org.ep4j.conformance.world.ThreadWorld;
import org.ep4j.conformance.world.World;
import org.junit.jupiter.api.BeforeAll;

/**
 * Nodes over a wire that delays, reorders, splits, repeats and refuses work as far as the contract
 * allows.
 */
class HostEngineFaultsTest extends EngineKit {
  @BeforeAll
  static void legal() {
    FaultyWireProvider.planLegal();
  }

  @Override
  protected String engine() {
    return "host";
  }

  @Override
  protected String wire() {
    return FaultyWireProvider.NAME;
  }

  @Override
  protected World world() {
    return new ThreadWorld();
  }
}
