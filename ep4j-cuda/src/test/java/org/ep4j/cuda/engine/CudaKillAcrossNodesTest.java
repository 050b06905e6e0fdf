package org.ep4j.cuda.engine;

import org.ep4j.conformance.KillKit;
import org.junit.jupiter.api.Nested;

/** Ranks of several nodes that share a device, or have one each. */
class CudaKillAcrossNodesTest {
  /** Two ranks of one node, one of another. */
  abstract static class TwoAndOne extends KillKit {
    @Override
    protected String engine() {
      return "cuda";
    }

    @Override
    protected int ranksPerNode() {
      return 2;
    }
  }

  /** Through memory of the host: a rank that was only stopped may still write there. */
  @Nested
  class Mapped extends TwoAndOne {
    @Override
    protected String wire() {
      return "staged";
    }

    @Override
    protected Survivors goesOn() {
      return Survivors.WITH_ALL_RANKS;
    }
  }

  /** The two go on as one node, and nobody without one of them. */
  @Nested
  class OverAWire extends TwoAndOne {
    @Override
    protected String wire() {
      return "tcp";
    }

    @Override
    protected Survivors goesOn() {
      return Survivors.WITHOUT_WHOLE_NODES;
    }

    /** Each rank once. */
    @Override
    protected int kills() {
      return 3;
    }
  }

  /** Three nodes of a rank each, of which two are left. */
  @Nested
  class OverAWireAlone extends OverAWire {
    @Override
    protected int ranksPerNode() {
      return 1;
    }
  }
}
