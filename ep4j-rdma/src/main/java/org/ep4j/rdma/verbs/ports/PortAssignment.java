package org.ep4j.rdma.verbs.ports;

import java.util.ArrayList;
import java.util.Comparator;
import java.util.HashMap;
import java.util.List;
import java.util.Map;

/**
 * The ports of a rank, and the port of its first lane. All ranks compute the same assignment from
 * the requests of all ranks. The ranks of a host choose one after the other: each takes, among its
 * closest ports, those taken by the fewest ranks before it, and starts at the port at which the
 * fewest start.
 *
 * @param ports names of the ports. The nth port of a rank communicates with the nth port of its
 *     peers, so ports stay in the order of their names, which is usually that of the cables,
 *     independent of the first port
 * @param first index of the port of lane 0
 */
record PortAssignment(List<String> ports, int first) {
  /** Default number of ports: those of a dual-port device, or two devices. */
  private static final int USUAL = 2;

  /** The assignment of a rank. */
  static PortAssignment of(List<PortRequest> requests, int rank) {
    int count = count(requests);
    String host = requests.get(rank).host();
    Map<String, Integer> taken = new HashMap<>();
    Map<String, Integer> begun = new HashMap<>();
    PortAssignment share = new PortAssignment(List.of(), 0);
    for (PortRequest request : requests.subList(0, rank + 1)) {
      if (request.host().equals(host)) {
        share = choose(request, count, taken, begun);
        share.ports.forEach(port -> taken.merge(port, 1, Integer::sum));
        begun.merge(share.ports.get(share.first), 1, Integer::sum);
      }
    }
    return share;
  }

  /**
   * Number of ports of each rank, equal for all: the number of named ports, else the number of
   * close ports that every rank has.
   */
  private static int count(List<PortRequest> requests) {
    int least = USUAL;
    for (PortRequest request : requests) {
      if (request.named()) {
        return request.ports().size();
      }
      least = Math.min(least, request.nearest());
    }
    return least;
  }

  private static PortAssignment choose(
      PortRequest request, int count, Map<String, Integer> taken, Map<String, Integer> begun) {
    if (request.named()) {
      return new PortAssignment(request.ports(), 0);
    }
    List<String> nearest = new ArrayList<>(request.ports().subList(0, request.nearest()));
    nearest.sort(Comparator.comparing(port -> taken.getOrDefault(port, 0))); // stable
    List<String> chosen = new ArrayList<>(nearest);
    chosen.addAll(request.ports().subList(request.nearest(), request.ports().size()));
    chosen = new ArrayList<>(chosen.subList(0, Math.min(count, chosen.size())));
    chosen.sort(null);
    int first = 0;
    for (int i = 1; i < chosen.size(); i++) {
      if (begun.getOrDefault(chosen.get(i), 0) < begun.getOrDefault(chosen.get(first), 0)) {
        first = i;
      }
    }
    return new PortAssignment(chosen, first);
  }
}
