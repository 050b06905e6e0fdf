package org.ep4j.conformance;

/** Two ranks of one node, one of another, over TCP: kills also cover a whole node. */
class HostKillAcrossNodesTest extends KillKit {
  @Override
  protected String engine() {
    return "host";
  }

  @Override
  protected int ranksPerNode() {
    return 2;
  }

  @Override
  protected String wire() {
    return "tcp";
  }

  /** Each rank once: both of one node, and a whole node. */
  @Override
  protected int kills() {
    return 3;
  }
}
