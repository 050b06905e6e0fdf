package org.ep4j.rdma.verbs.ports;

import java.util.List;

/**
 * The ports of a rank.
 *
 * @param ports the ports; the nth communicates with the nth of each peer
 * @param first index of the port of lane 0
 */
public record PortChoice(List<RdmaPort> ports, int first) {
  /** Copies the list. */
  public PortChoice {
    ports = List.copyOf(ports);
  }
}
