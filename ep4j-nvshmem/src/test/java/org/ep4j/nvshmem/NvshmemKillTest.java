package org.ep4j.nvshmem;

import org.ep4j.config.WireName;
import org.ep4j.conformance.KillKit;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Nested;

/** Ranks that are killed while the others share memory of NVSHMEM with them. */
class NvshmemKillTest {
  @BeforeAll
  static void choose() {
    Gpus.choose();
  }

  @AfterAll
  static void chooseNot() {
    Gpus.chooseNot();
  }

  abstract static class Killed extends KillKit {
    @Override
    protected String engine() {
      return "cuda";
    }

    @Override
    protected String missing() {
      return Gpus.lacking(2);
    }

    @Override
    protected int ranks() {
      return Gpus.worlds().filter(ranks -> ranks <= 3).max().orElse(2);
    }

    /** Time for the start of CUDA and NVSHMEM. */
    @Override
    protected int openingMillis() {
      return 2_000;
    }
  }

  /** Kernels store to mapped memory of the other ranks. */
  @Nested
  class InANode extends Killed {}

  /**
   * Kernels put by the device library. NVSHMEM serves one group per process, so the next group has
   * none.
   */
  @Nested
  class BetweenNodes extends Killed {
    @Override
    protected String missing() {
      String lacking = super.missing();
      return lacking.isEmpty() ? NvshmemDevice.problem() : lacking;
    }

    @Override
    protected int ranksPerNode() {
      return 1;
    }

    @Override
    protected String wire() {
      return WireName.BACKEND;
    }

    @Override
    protected Survivors goesOn() {
      return Survivors.WITH_ALL_RANKS;
    }

    @Override
    protected String nextBackend() {
      return "direct";
    }

    @Override
    protected String nextWire() {
      return "auto";
    }
  }
}
