package org.ep4j.wire;

import org.ep4j.group.Group;

/** A kind of wire, found through {@link java.util.ServiceLoader}. Implementations are stateless. */
public interface WireProvider {
  /** Name as in {@link WireConfig#wire()}. */
  String name();

  /**
   * Empty if this host has what the wire needs of libraries and devices; otherwise what is missing,
   * and what helps. For whoever looks at a host when there are no ranks.
   */
  default String unavailableHere() {
    return "";
  }

  /**
   * Empty if the wire can connect the ranks of this group, as far as this rank can tell alone;
   * otherwise why not, and what helps. Not collective.
   */
  String unavailableBecause(Group group);

  /**
   * Opens the wire; collective. The configurations of the ranks have been compared.
   *
   * @throws WireException if a rank cannot; names it, on all ranks
   */
  Wire open(Group group, WireConfig config);
}
