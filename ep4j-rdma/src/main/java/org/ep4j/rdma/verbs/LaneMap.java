package org.ep4j.rdma.verbs;

/**
 * Which queue pair carries a lane. Queue pairs belong to a strand, so that one thread drives them
 * without locks; the lanes of a strand are spread over the ports first, then over the queue pairs
 * of a port. With one strand: port = lane mod ports, queue pair = (lane / ports) mod queue pairs a
 * port. Further strands begin with further ports, so that strands of one lane use all ports.
 *
 * @param progressContexts as the wire has them
 * @param ports of each rank
 * @param queuePairsPerPort to each peer on each port, for each strand
 * @param first port of lane 0; ranks that share ports begin with different ones
 */
record LaneMap(int progressContexts, int ports, int queuePairsPerPort, int first) {
  /** Queue pairs of a strand to one peer. */
  int queuePairs() {
    return ports * queuePairsPerPort;
  }

  /** The lane's queue pair among those of its strand to its peer. */
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
