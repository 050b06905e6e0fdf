package org.ep4j.rdma.verbs;

/**
 * Maps lanes to queue pairs. Queue pairs belong to a progress context, so that one thread drives
 * them without locks. The lanes of a progress context are distributed over the ports first, then
 * over the queue pairs of a port. With one progress context: port = lane mod ports, queue pair =
 * (lane / ports) mod queue pairs per port. Further progress contexts start at further ports, so
 * that progress contexts with one lane use all ports.
 *
 * @param progressContexts progress contexts of the wire
 * @param ports ports of each rank
 * @param queuePairsPerPort queue pairs to each peer on each port, per progress context
 * @param first port of lane 0; ranks that share ports start at different ports
 */
record LaneMap(int progressContexts, int ports, int queuePairsPerPort, int first) {
  /** Queue pairs of a progress context to one peer. */
  int queuePairs() {
    return ports * queuePairsPerPort;
  }

  /** Index of the queue pair of the lane among those of its progress context to its peer. */
  int queuePair(int lane) {
    int nth = lane / progressContexts;
    int port = (first + nth + lane % progressContexts) % ports;
    return nth / ports % queuePairsPerPort * ports + port;
  }

  /** Port of a queue pair. */
  int port(int queuePair) {
    return queuePair % ports;
  }
}
