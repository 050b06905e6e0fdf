package org.ep4j.cuda.engine.failure;

import org.ep4j.conformance.ReadmitKit;
import org.junit.jupiter.api.Nested;

/**
 * Two ranks of one node, one of another, on one GPU or several. Each rank is killed and returns
 * once, one after the other: one of two ranks of a node, and a whole node.
 */
class CudaReadmitAcrossNodesTest {
  abstract static class TwoAndOne extends ReadmitKit {
    @Override
    protected String engine() {
      return "cuda";
    }

    @Override
    protected int ranksPerNode() {
      return 2;
    }
  }

  @Nested
  class OverAWire extends TwoAndOne {
    @Override
    protected String wire() {
      return "tcp";
    }
  }

  /** Through host memory that the nodes map: a lost process may write the old memory only. */
  @Nested
  class Mapped extends TwoAndOne {
    @Override
    protected String wire() {
      return "staged";
    }

    @Override
    protected boolean resetsAfterALoss() {
      return false;
    }
  }
}
