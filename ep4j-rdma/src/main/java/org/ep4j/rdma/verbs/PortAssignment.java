package org.ep4j.rdma.verbs;

import java.util.ArrayList;
import java.util.Comparator;
import java.util.HashMap;
import java.util.List;
import java.util.Map;

/**
 * Which ports a rank takes, and with which of them its lanes begin. All ranks compute the same from
 * the wishes of all: the ranks of a host choose in turn, each among its nearest ports those that
 * fewest ranks before it have taken, and begins with the one that fewest begin with.
 *
 * @param ports their names. The nth port of a rank talks to the nth port of its peers, so that
 *     ports stay in the order of their names, that of the cables, usually, whoever begins with
 *     which
 * @param first index of the port of lane 0
 */
record PortAssignment(List<String> ports, int first) {
  /** Ports of a rank where nobody says: those of a dual-port device, or two devices. */
  private static final int USUAL = 2;

  /** The share of a rank. */
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
   * How many ports each rank takes, the same for all: as many as a rank has named, or else what
   * every rank has near.
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
