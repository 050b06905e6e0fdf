package org.ep4j.rdma.verbs;

import java.util.List;

/**
 * The ports of a rank.
 *
 * @param ports the nth of them talks to the nth of each peer
 * @param first index of the one that lane 0 goes through
 */
public record PortChoice(List<RdmaPort> ports, int first) {
  /** Keeps a copy. */
  public PortChoice {
    ports = List.copyOf(ports);
  }
}
