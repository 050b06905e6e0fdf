package org.ep4j.rdma.verbs.ports;

import java.util.Comparator;

/**
 * Distance between a port and the sender of a rank.
 *
 * @param kind connection between the two
 * @param bridges PCIe bridges between the two, if a bridge connects them; else 0, because the host
 *     bridge is then the limit
 */
public record PortDistance(Kind kind, int bridges) implements Comparable<PortDistance> {
  /** Connections of two devices, closest first. */
  public enum Kind {
    /** A bridge above both, such as a switch. */
    BRIDGE,
    /** A host bridge. */
    HOST_BRIDGE,
    /** The memory of a NUMA node. */
    NUMA_NODE,
    /** More distant, or unknown. */
    OTHER
  }

  private static final Comparator<PortDistance> NEAREST_FIRST =
      Comparator.comparing(PortDistance::kind).thenComparingInt(PortDistance::bridges);

  static PortDistance between(PcieLocation from, PcieLocation to) {
    int common = 0;
    while (common < Math.min(from.path().size(), to.path().size())
        && from.path().get(common).equals(to.path().get(common))) {
      common++;
    }
    // The first of a path is the host bridge, the last the device itself.
    if (common > 1) {
      int apart = from.path().size() + to.path().size() - 2 * common;
      return new PortDistance(Kind.BRIDGE, Math.max(0, apart - 1));
    }
    if (common == 1) {
      return new PortDistance(Kind.HOST_BRIDGE, 0);
    }
    boolean sameNode = from.numaNode() >= 0 && from.numaNode() == to.numaNode();
    return new PortDistance(sameNode ? Kind.NUMA_NODE : Kind.OTHER, 0);
  }

  @Override
  public int compareTo(PortDistance other) {
    return NEAREST_FIRST.compare(this, other);
  }

  @Override
  public String toString() {
    return switch (kind) {
      case BRIDGE -> bridges == 1 ? "1 bridge" : bridges + " bridges";
      case HOST_BRIDGE -> "same host bridge";
      case NUMA_NODE -> "same NUMA node";
      case OTHER -> "farther or unknown";
    };
  }
}
