package org.ep4j.conformance;

import org.junit.jupiter.api.BeforeAll;

/** Nodes over a wire that delays, reorders, cuts up, repeats and refuses what it may. */
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
