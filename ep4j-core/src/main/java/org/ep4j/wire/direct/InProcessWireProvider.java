package org.ep4j.wire.direct;

import org.ep4j.config.WireName;
import org.ep4j.group.Group;
import org.ep4j.wire.Wire;
import org.ep4j.wire.WireConfig;
import org.ep4j.wire.WireProvider;

/** The wire {@code inproc}: ranks are threads of one JVM. */
public final class InProcessWireProvider implements WireProvider {
  static final String NAME = WireName.INPROC;

  /** Used by the service loader. */
  public InProcessWireProvider() {}

  @Override
  public String name() {
    return NAME;
  }

  @Override
  public String unavailableBecause(Group group) {
    return group.inProcess()
        ? ""
        : "the ranks are processes, not threads of one JVM: use shm or tcp";
  }

  @Override
  public Wire open(Group group, WireConfig config) {
    return DirectWire.open(NAME, group, config);
  }
}
