package org.ep4j.wire.tcp;

import org.ep4j.config.WireName;
import org.ep4j.group.Group;
import org.ep4j.wire.Wire;
import org.ep4j.wire.WireConfig;
import org.ep4j.wire.WireProvider;

/** The wire {@code tcp}: ranks on any hosts. */
public final class TcpWireProvider implements WireProvider {
  static final String NAME = WireName.TCP;

  /** Used by the service loader. */
  public TcpWireProvider() {}

  @Override
  public String name() {
    return NAME;
  }

  @Override
  public String unavailableBecause(Group group) {
    return "";
  }

  @Override
  public Wire open(Group group, WireConfig config) {
    return new TcpConnectionSetup(NAME, group, config, null).open();
  }
}
