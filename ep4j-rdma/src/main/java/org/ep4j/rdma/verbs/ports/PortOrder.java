package org.ep4j.rdma.verbs.ports;

import java.util.ArrayList;
import java.util.Comparator;
import java.util.List;

/**
 * The active ports of a host in order of distance, then of name.
 *
 * @param ports the ports
 * @param distances distance of each port
 */
public record PortOrder(List<RdmaPort> ports, List<PortDistance> distances) {
  /** Copies the lists. */
  public PortOrder {
    ports = List.copyOf(ports);
    distances = List.copyOf(distances);
  }

  /** Orders the active ports. */
  public static PortOrder of(List<RdmaPort> all, PcieLocation from) {
    List<RdmaPort> ports =
        all.stream()
            .filter(RdmaPort::active)
            .sorted(
                Comparator.comparing((RdmaPort port) -> distance(from, port))
                    .thenComparing(RdmaPort::name))
            .toList();
    return new PortOrder(ports, ports.stream().map(port -> distance(from, port)).toList());
  }

  private static PortDistance distance(PcieLocation from, RdmaPort port) {
    return PortDistance.between(from, PcieLocation.of(port));
  }

  /** Number of ports at the minimum distance. */
  int nearest() {
    return distances.isEmpty()
        ? 0
        : (int) distances.stream().filter(distances.getFirst()::equals).count();
  }

  /** The names of the ports, with the distance in parentheses behind each group. */
  @Override
  public String toString() {
    List<String> groups = new ArrayList<>();
    List<String> names = new ArrayList<>();
    for (int i = 0; i < ports.size(); i++) {
      names.add(ports.get(i).name());
      if (i + 1 == ports.size() || !distances.get(i + 1).equals(distances.get(i))) {
        groups.add(String.join(", ", names) + " (" + distances.get(i) + ")");
        names.clear();
      }
    }
    return String.join(", then ", groups);
  }
}
