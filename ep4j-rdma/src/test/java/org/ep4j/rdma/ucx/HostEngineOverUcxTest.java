package org.ep4j.rdma.ucx;

import org.ep4j.conformance.EngineKit;
import org.ep4j.conformance.world.ThreadWorld;
import org.ep4j.conformance.world.World;
import org.ep4j.rdma.ucx.bindings.UcxLibrary;
import org.junit.jupiter.api.Assumptions;
import org.junit.jupiter.api.BeforeAll;

/** The engine kit over UCX with several nodes of random sizes; skipped without libucp. */
class HostEngineOverUcxTest extends EngineKit {
  @BeforeAll
  static void requireUcx() {
    Assumptions.assumeTrue(UcxLibrary.problem().isEmpty(), UcxLibrary.problem());
  }

  @Override
  protected String engine() {
    return "host";
  }

  @Override
  protected String wire() {
    return "ucx";
  }

  @Override
  protected int cases() {
    return 40;
  }

  @Override
  protected World world() {
    return new ThreadWorld();
  }
}
