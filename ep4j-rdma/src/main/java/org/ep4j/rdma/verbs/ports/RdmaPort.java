package org.ep4j.rdma.verbs.ports;

import java.util.List;

/**
 * A port of an RDMA device of this host, as the system describes it.
 *
 * @param device name of the device
 * @param number number of the port, from 1
 * @param state {@code ACTIVE} if the port can be used
 * @param linkLayer {@code Ethernet} or {@code InfiniBand}
 * @param rate rate as printed by the system
 * @param numaNode NUMA node of the closest memory; -1 if unknown
 * @param pciPath the device and the bridges above it, one directory each; empty without PCIe
 * @param addresses addresses in the order of their index
 */
public record RdmaPort(
    String device,
    int number,
    String state,
    String linkLayer,
    String rate,
    int numaNode,
    String pciPath,
    List<Address> addresses) {
  private static final String MAPPED_IPV4 = "0000:0000:0000:0000:0000:ffff:";
  private static final String LINK_LOCAL = "fe80:";

  /**
   * An address of a port.
   *
   * @param index index of the address
   * @param gid GID as printed by the system
   * @param type {@code RoCE v2} or another
   */
  public record Address(int index, String gid, String type) {}

  /** Name as in {@link RdmaSettings#HCA}. */
  public String name() {
    return device + ":" + number;
  }

  /** Whether the port can be used. */
  public boolean active() {
    return state.equals("ACTIVE");
  }

  /** Whether this is a RoCE port. */
  public boolean ethernet() {
    return linkLayer.equals("Ethernet");
  }

  /**
   * Index of the default address: RoCE version 2, which is routable, with IPv4, or else not
   * link-local; on InfiniBand the first.
   */
  public int usualAddress() {
    int best = 0;
    int bestRank = -1;
    for (Address address : addresses) {
      int rank =
          !ethernet() || !address.type().equals("RoCE v2")
              ? 0
              : address.gid().startsWith(MAPPED_IPV4)
                  ? 3
                  : address.gid().startsWith(LINK_LOCAL) ? 1 : 2;
      if (rank > bestRank) {
        best = address.index();
        bestRank = rank;
      }
    }
    return best;
  }
}
