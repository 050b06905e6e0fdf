package org.ep4j.wire.tcp;

import org.ep4j.group.Group;
import org.ep4j.wire.Wire;
import org.ep4j.wire.WireConfig;

/**
 * Wires that are as {@code tcp} in all but how most bytes travel: connections agree, prove who they
 * are, notice ends and carry what is short; a {@link Carrier} beside each has the rest.
 */
public final class CarriedWires {
  private CarriedWires() {}

  /**
   * Opens one; collective.
   *
   * @param name kind of wire
   * @param carriers closed with the wire, or if it cannot be opened
   */
  public static Wire open(String name, Group group, WireConfig config, CarrierService carriers) {
    return new TcpConnectionSetup(name, group, config, carriers).open();
  }
}
