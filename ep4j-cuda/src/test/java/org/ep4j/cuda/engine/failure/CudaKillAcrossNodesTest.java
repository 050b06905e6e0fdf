package org.ep4j.cuda.engine.failure;

import org.ep4j.conformance.KillKit;
import org.junit.jupiter.api.Nested;

/** Ranks of several nodes that share a device or have one each. */
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

  /** Through host memory: a rank that was only stopped may still write there. */
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

  /** The two ranks continue as one node; without one of them, each is a node. */
  @Nested
  class OverAWire extends TwoAndOne {
    @Override
    protected String wire() {
      return "tcp";
    }

    @Override
    protected Survivors goesOn() {
      return Survivors.WITHOUT_ANY_RANK;
    }

    /** Each rank is killed once. */
    @Override
    protected int kills() {
      return 3;
    }
  }

  /** Three nodes of one rank each, two of which survive. */
  @Nested
  class OverAWireAlone extends OverAWire {
    @Override
    protected int ranksPerNode() {
      return 1;
    }
  }

  /** Two nodes of two ranks: a rank alone on its node would need memory for two rails. */
  @Nested
  class OverAWireWithoutRoom extends OverAWire {
    @Override
    protected int ranks() {
      return 4;
    }

    @Override
    protected Survivors goesOn() {
      return Survivors.WITHOUT_WHOLE_NODES;
    }
  }

  /** The same with that memory: the rank alone on its node serves both ranks of the other. */
  @Nested
  class OverAWireWithRoom extends OverAWire {
    @Override
    protected int ranks() {
      return 4;
    }

    @Override
    protected int lostRanks() {
      return 1;
    }

    /** One of each node. */
    @Override
    protected int kills() {
      return 2;
    }
  }
}
