package org.ep4j.nccl;

import org.ep4j.conformance.wire.WireKit;
import org.ep4j.conformance.wire.WireSetup;
import org.ep4j.cuda.driver.CudaDevice;
import org.junit.jupiter.api.BeforeEach;

/**
 * The wire {@code nccl}, with one GPU per rank if ranks may not share one.
 */
abstract class NcclWireKit extends WireKit {
  private static final int FEWEST = 2;
  private static final int RANKS = 3;

  @BeforeEach
  void requireGpus() {
    Gpus.require(FEWEST);
  }

  @Override
  protected int ranks() {
    return SharedGpus.allowed() ? RANKS : Math.min(RANKS, CudaDevice.count());
  }

  @Override
  protected WireSetup setup() {
    return WireSetup.of(NcclWireProvider.NAME);
  }
}
