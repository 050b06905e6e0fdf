package org.ep4j.cuda.internode;

import org.ep4j.cuda.driver.CudaDevice;
import org.ep4j.cuda.driver.DeviceProperties;
import org.ep4j.cuda.driver.calls.CudaDriver;
import org.ep4j.group.Group;
import org.ep4j.wire.Wire;
import org.ep4j.wire.WireConfig;
import org.ep4j.wire.WireProvider;

/** The wire {@code copying}, registered with the service loader of the tests. */
public final class CopyingWireProvider implements WireProvider {
  /** Used by the service loader. */
  public CopyingWireProvider() {}

  @Override
  public String name() {
    return CopyingWire.NAME;
  }

  @Override
  public String unavailableBecause(Group group) {
    return group.inProcess() ? CudaDriver.find().problem() : "the ranks are not threads of one JVM";
  }

  @Override
  public Wire open(Group group, WireConfig config) {
    return new CopyingWire(group, config, device(config.affinity()));
  }

  /** The GPU at a PCI address; without an address, the first. */
  private static int device(String affinity) {
    for (int ordinal = 0; ordinal < CudaDevice.count(); ordinal++) {
      if (DeviceProperties.of(ordinal).pciBusId().equals(affinity)) {
        return ordinal;
      }
    }
    return 0;
  }
}
