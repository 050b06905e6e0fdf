package org.ep4j.rdma.ucx;

import org.ep4j.config.WireName;
import org.ep4j.error.ErrorCode;
import org.ep4j.group.Group;
import org.ep4j.rdma.ucx.bindings.UcxLibrary;
import org.ep4j.wire.Wire;
import org.ep4j.wire.WireConfig;
import org.ep4j.wire.WireException;
import org.ep4j.wire.WireProvider;

/** The wire {@code ucx}, for ranks on any hosts with libucp. */
public final class UcxWireProvider implements WireProvider {
  static final String NAME = WireName.UCX;

  /** Used by the service loader. */
  public UcxWireProvider() {}

  @Override
  public String name() {
    return NAME;
  }

  @Override
  public String unavailableHere() {
    return UcxLibrary.problem();
  }

  @Override
  public String unavailableBecause(Group group) {
    return unavailableHere();
  }

  @Override
  public Wire open(Group group, WireConfig config) {
    if (config.encrypted()) {
      // All ranks have the same configuration.
      throw new WireException(
          ErrorCode.UCX_NO_ENCRYPTION,
          "wire 'ucx' does not encrypt: use wire tcp, or encrypt below it, for example with IPsec");
    }
    return new UcxConnectionSetup(group, config).open();
  }
}
