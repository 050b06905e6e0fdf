package org.ep4j.wire.direct;

import org.ep4j.config.WireName;
import org.ep4j.group.Group;
import org.ep4j.wire.Wire;
import org.ep4j.wire.WireConfig;
import org.ep4j.wire.WireProvider;

/** The wire {@code shm}: ranks are processes of one host that map files in /dev/shm. */
public final class SharedMemoryWireProvider implements WireProvider {
  static final String NAME = WireName.SHM;

  /** Used by the service loader. */
  public SharedMemoryWireProvider() {}

  @Override
  public String name() {
    return NAME;
  }

  @Override
  public String unavailableBecause(Group group) {
    return group.inProcess() ? "the ranks are threads of one JVM: use inproc" : "";
  }

  @Override
  public Wire open(Group group, WireConfig config) {
    return DirectWire.open(NAME, group, config);
  }
}
