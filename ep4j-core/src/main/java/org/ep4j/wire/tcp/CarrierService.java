package org.ep4j.wire.tcp;

import org.ep4j.group.Group;
import org.ep4j.wire.WireConfig;

/** Makes the carriers of one wire. */
public interface CarrierService extends AutoCloseable {
  /**
   * Makes a carrier for every connection of this rank; collective.
   *
   * @return by peer, then by index of the connection; none to this rank itself
   * @throws org.ep4j.wire.WireException if a rank cannot; names it, on all ranks
   */
  Carrier[][] open(Group group, WireConfig config);

  /** Waits until what its closed carriers left behind is gone, but not for ever. */
  @Override
  void close();
}
