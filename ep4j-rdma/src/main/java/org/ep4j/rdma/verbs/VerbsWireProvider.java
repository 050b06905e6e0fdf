package org.ep4j.rdma.verbs;

import java.util.List;
import org.ep4j.InvalidArgumentException;
import org.ep4j.group.Group;
import org.ep4j.group.LaunchEnvironment;
import org.ep4j.wire.Wire;
import org.ep4j.wire.WireConfig;
import org.ep4j.wire.WireException;
import org.ep4j.wire.WireProvider;

/** The wire {@code verbs}: ranks on hosts with RDMA devices, InfiniBand or RoCE. */
public final class VerbsWireProvider implements WireProvider {
  static final String NAME = "verbs";

  /** Used by the service loader. */
  public VerbsWireProvider() {}

  @Override
  public String name() {
    return NAME;
  }

  @Override
  public String unavailableBecause(Group group) {
    String problem = VerbsLibrary.problem();
    if (!problem.isEmpty()) {
      return problem;
    }
    try {
      List<RdmaPort> chosen = RdmaPorts.choose(RdmaPorts.discover(), settings(), localRank(group));
      return chosen.isEmpty() ? "no port is chosen" : "";
    } catch (InvalidArgumentException | WireException e) {
      return String.valueOf(e.getMessage());
    }
  }

  @Override
  public Wire open(Group group, WireConfig config) {
    return new Opening(group, config, settings(), localRank(group)).open();
  }

  private static RdmaSettings settings() {
    return RdmaSettings.of(System.getenv());
  }

  /** Number of this rank on its host; ranks of one JVM are on one host. */
  static int localRank(Group group) {
    return group.inProcess()
        ? group.rank()
        : LaunchEnvironment.localRank(System.getenv()).orElse(group.rank());
  }
}
