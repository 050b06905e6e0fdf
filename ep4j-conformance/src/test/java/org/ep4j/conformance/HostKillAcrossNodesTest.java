package org.ep4j.conformance;

/** Two ranks of one node, one of another, over TCP: also a whole node is killed. */
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

  /** Each rank once: both of a node, and a node alone. */
  @Override
  protected int kills() {
    return 3;
  }
}
