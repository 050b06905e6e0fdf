package org.ep4j.wire;

import java.util.List;
import org.ep4j.group.Group;

/** A kind of wire, found through {@link java.util.ServiceLoader}. Implementations are stateless. */
public interface WireProvider {
  /** Name as in {@link WireConfig#wire()}. */
  String name();

  /**
   * Empty if this host has the libraries and devices of the wire; otherwise what is missing, and
   * the remedy. For diagnosis of a host without ranks.
   */
  default String unavailableHere() {
    return "";
  }

  /**
   * Empty if the wire can connect the ranks of this group, as far as this rank can determine alone;
   * otherwise the reason, and the remedy. Not collective.
   */
  String unavailableBecause(Group group);

  /**
   * Active network ports of this host that only this kind of wire uses, such as those of RDMA
   * devices; empty (default) for wires on any network. Where all ranks have some, {@code auto}
   * tries the wire between hosts before {@code tcp}. Cheap, and without the wire's libraries.
   */
  default List<String> ports() {
    return List.of();
  }

  /**
   * Whether {@link #open} chooses the number of lanes where the configuration leaves it open, see
   * {@link WireConfig#settled}; other wires are opened with a number.
   */
  default boolean choosesLanes() {
    return false;
  }

  /**
   * Opens the wire; collective. The configurations of the ranks have been compared before. {@link
   * Wire#config()} of the result has a number of lanes, the same on all ranks.
   *
   * @throws WireException if a rank cannot open the wire; names the rank, on all ranks
   */
  Wire open(Group group, WireConfig config);
}
