package org.ep4j.rdma.ucx;

import org.ep4j.conformance.wire.WireKit;
import org.ep4j.conformance.wire.WireSetup;
import org.ep4j.conformance.world.TestScale;
import org.ep4j.rdma.ucx.bindings.UcxLibrary;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.Assumptions;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.TestInstance;

/** The wire kit over one transport of UCX; skipped without libucp. */
@TestInstance(TestInstance.Lifecycle.PER_CLASS)
abstract class UcxWireKit extends WireKit {
  private static final String TRANSPORTS = "ep4j.ucx.TLS";

  /** Value of {@code UCX_TLS}, also for ranks in processes. */
  protected abstract String transports();

  /** Whether every build runs the test; the other transport then does so in the other world. */
  protected abstract boolean inEveryBuild();

  @BeforeAll
  void chooseTransports() {
    Assumptions.assumeTrue(UcxLibrary.problem().isEmpty(), UcxLibrary.problem());
    if (!inEveryBuild()) {
      TestScale.onlyInFull("UCX over tcp on threads and shared memory on processes run");
    }
    System.setProperty(TRANSPORTS, transports());
  }

  @AfterAll
  void chooseNone() {
    System.clearProperty(TRANSPORTS);
  }

  @Override
  protected WireSetup setup() {
    return WireSetup.of("ucx");
  }
}
