package org.ep4j.cuda.engine;

import org.ep4j.conformance.KillKit;

/** Two ranks of one node, one of another, which reach each other through memory of the host. */
class CudaKillAcrossNodesTest extends KillKit {
  @Override
  protected String engine() {
    return "cuda";
  }

  @Override
  protected int ranksPerNode() {
    return 2;
  }

  @Override
  protected String wire() {
    return "staged";
  }

  @Override
  protected boolean goesOn() {
    return false;
  }
}
