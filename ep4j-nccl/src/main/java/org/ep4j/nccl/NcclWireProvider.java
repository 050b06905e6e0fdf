package org.ep4j.nccl;

import org.ep4j.config.WireName;
import org.ep4j.cuda.backend.BackendProbe;
import org.ep4j.cuda.driver.CudaDevice;
import org.ep4j.error.ErrorCode;
import org.ep4j.group.Group;
import org.ep4j.wire.Wire;
import org.ep4j.wire.WireConfig;
import org.ep4j.wire.WireException;
import org.ep4j.wire.WireProvider;
import org.ep4j.wire.tcp.CarriedWires;

/**
 * The wire {@code nccl}: ranks with one GPU each, between which NCCL sends long messages over any
 * transport that it finds, including sockets. Short messages use the TCP connections of the setup.
 */
public final class NcclWireProvider implements WireProvider {
  static final String NAME = WireName.NCCL;

  /** Used by the service loader. */
  public NcclWireProvider() {}

  @Override
  public String name() {
    return NAME;
  }

  @Override
  public String unavailableHere() {
    BackendProbe probe = new NcclBackendProvider().probe();
    if (!probe.usable()) {
      return probe.problem();
    }
    return CudaDevice.count() == 0 ? "no GPU is visible: use wire tcp" : "";
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
          ErrorCode.NCCL_WIRE_UNUSABLE,
          "wire 'nccl' does not encrypt: use the wire tcp, or encrypt below it, for example with"
              + " IPsec");
    }
    return CarriedWires.open(NAME, group, config, new NcclCarrierService());
  }
}
