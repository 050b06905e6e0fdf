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
record PortShare(List<String> ports, int first) {
  /** Ports of a rank where nobody says: those of a dual-port device, or two devices. */
  private static final int USUAL = 2;

  /** The share of a rank. */
  static PortShare of(List<PortWish> wishes, int rank) {
    int count = count(wishes);
    String host = wishes.get(rank).host();
    Map<String, Integer> taken = new HashMap<>();
    Map<String, Integer> begun = new HashMap<>();
    PortShare share = new PortShare(List.of(), 0);
    for (PortWish wish : wishes.subList(0, rank + 1)) {
      if (wish.host().equals(host)) {
        share = choose(wish, count, taken, begun);
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
  private static int count(List<PortWish> wishes) {
    int least = USUAL;
    for (PortWish wish : wishes) {
      if (wish.named()) {
        return wish.ports().size();
      }
      least = Math.min(least, wish.nearest());
    }
    return least;
  }

  private static PortShare choose(
      PortWish wish, int count, Map<String, Integer> taken, Map<String, Integer> begun) {
    if (wish.named()) {
      return new PortShare(wish.ports(), 0);
    }
    List<String> near = new ArrayList<>(wish.ports().subList(0, wish.nearest()));
    near.sort(Comparator.comparing(port -> taken.getOrDefault(port, 0))); // stable
    List<String> chosen = new ArrayList<>(near);
    chosen.addAll(wish.ports().subList(wish.nearest(), wish.ports().size()));
    chosen = new ArrayList<>(chosen.subList(0, Math.min(count, chosen.size())));
    chosen.sort(null);
    int first = 0;
    for (int i = 1; i < chosen.size(); i++) {
      if (begun.getOrDefault(chosen.get(i), 0) < begun.getOrDefault(chosen.get(first), 0)) {
        first = i;
      }
    }
    return new PortShare(chosen, first);
  }
}
