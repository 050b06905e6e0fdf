package org.ep4j.nccl;

import org.ep4j.conformance.wire.WireKit;
import org.ep4j.conformance.wire.WireSetup;
import org.junit.jupiter.api.BeforeEach;

/** The wire {@code nccl}, with as many GPUs as the kit has ranks. */
abstract class NcclWireKit extends WireKit {
  private static final int RANKS = 3;

  @BeforeEach
  void requireGpus() {
    Gpus.require(RANKS);
  }

  @Override
  protected int ranks() {
    return RANKS;
  }

  @Override
  protected WireSetup setup() {
    return WireSetup.of(NcclWireProvider.NAME);
  }
}
