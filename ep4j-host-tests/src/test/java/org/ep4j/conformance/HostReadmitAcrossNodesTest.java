package org.ep4j.conformance;

/** Two ranks of one node, one of another, over TCP: a whole node rejoins, too. */
class HostReadmitAcrossNodesTest extends ReadmitKit {
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
}
