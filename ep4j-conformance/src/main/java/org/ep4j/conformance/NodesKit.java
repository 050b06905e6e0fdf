package org.ep4j.conformance;

import org.ep4j.config.WireName;
import org.ep4j.conformance.world.World;

/** What kits ask of their subclasses: an engine, a world, and which of its ranks share memory. */
public abstract class NodesKit {
  /** For subclasses. */
  protected NodesKit() {}

  /** The engine, as in {@link org.ep4j.config.BufferConfig#engine()}. */
  protected abstract String engine();

  /** World that runs the ranks. */
  protected abstract World world();

  /** Ranks per node, 0 (default) = all of them. */
  protected int ranksPerNode() {
    return 0;
  }

  /** The wire between nodes. */
  protected String wire() {
    return WireName.AUTO;
  }

  /** What these tests need besides the engine and this machine lacks; empty (default): nothing. */
  protected String missing() {
    return "";
  }
}
