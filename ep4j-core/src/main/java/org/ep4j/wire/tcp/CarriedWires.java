package org.ep4j.wire.tcp;

import org.ep4j.group.Group;
import org.ep4j.wire.Wire;
import org.ep4j.wire.WireConfig;

/**
 * Wires that differ from {@code tcp} only in the transfer of most bytes: the connections agree,
 * authenticate, detect ends and transfer short segments; a {@link Carrier} per connection transfers
 * the rest.
 */
public final class CarriedWires {
  private CarriedWires() {}

  /**
   * Opens such a wire; collective.
   *
   * @param name kind of wire
   * @param carriers closed with the wire, or if the wire cannot be opened
   */
  public static Wire open(String name, Group group, WireConfig config, CarrierService carriers) {
    return new TcpConnectionSetup(name, group, config, carriers).open();
  }
}
