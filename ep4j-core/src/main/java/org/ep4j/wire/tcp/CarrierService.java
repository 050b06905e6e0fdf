package org.ep4j.wire.tcp;

import org.ep4j.group.Group;
import org.ep4j.wire.WireConfig;

/** Makes the carriers of one wire. */
public interface CarrierService extends AutoCloseable {
  /**
   * Makes a carrier for every connection of this rank; collective.
   *
   * @return by peer, then by index of the connection; none to this rank itself
   * @throws org.ep4j.wire.WireException if a rank cannot; names the rank, on all ranks
   */
  Carrier[][] open(Group group, WireConfig config);

  /** Waits, with a limit, for the transfers that its closed carriers left behind. */
  @Override
  void close();
}
