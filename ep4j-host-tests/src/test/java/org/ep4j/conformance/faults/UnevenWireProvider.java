package org.ep4j.conformance.faults;

import org.ep4j.group.Group;
import org.ep4j.wire.Wire;
import org.ep4j.wire.WireConfig;
import org.ep4j.wire.WireProvider;

/** A wire that is unavailable on the last rank. */
public final class UnevenWireProvider implements WireProvider {
  static final String NAME = "uneven";

  /** Used by the service loader. */
  public UnevenWireProvider() {}

  @Override
  public String name() {
    return NAME;
  }

  @Override
  public String unavailableBecause(Group group) {
    return group.rank() == group.size() - 1 ? "there is no port: load its driver" : "";
  }

  @Override
  public Wire open(Group group, WireConfig config) {
    throw new AssertionError("opened though a rank lacks the wire");
  }
}
