package org.ep4j.rdma.verbs;

import java.util.List;
import org.ep4j.config.WireName;
import org.ep4j.error.InvalidArgumentException;
import org.ep4j.group.Group;
import org.ep4j.group.LaunchEnvironment;
import org.ep4j.rdma.verbs.bindings.VerbsLibrary;
import org.ep4j.rdma.verbs.ports.PcieLocation;
import org.ep4j.rdma.verbs.ports.PortRequest;
import org.ep4j.rdma.verbs.ports.RdmaPort;
import org.ep4j.rdma.verbs.ports.RdmaPorts;
import org.ep4j.rdma.verbs.ports.RdmaSettings;
import org.ep4j.wire.Wire;
import org.ep4j.wire.WireConfig;
import org.ep4j.wire.WireException;
import org.ep4j.wire.WireProvider;

/** The wire {@code verbs}, for ranks on hosts with RDMA devices (InfiniBand or RoCE). */
public final class VerbsWireProvider implements WireProvider {
  static final String NAME = WireName.VERBS;

  /** Used by the service loader. */
  public VerbsWireProvider() {}

  @Override
  public String name() {
    return NAME;
  }

  @Override
  public String unavailableHere() {
    try {
      return problem(LaunchEnvironment.localRank(System.getenv()).orElse(0));
    } catch (InvalidArgumentException e) {
      return String.valueOf(e.getMessage());
    }
  }

  @Override
  public String unavailableBecause(Group group) {
    return problem(RdmaPorts.localRank(group));
  }

  @Override
  public List<String> ports() {
    return RdmaPorts.discover().stream().filter(RdmaPort::active).map(RdmaPort::name).toList();
  }

  private static String problem(int localRank) {
    String problem = VerbsLibrary.problem();
    if (!problem.isEmpty()) {
      return problem;
    }
    try {
      RdmaSettings settings = RdmaSettings.of(System.getenv());
      PortRequest request =
          RdmaPorts.request(RdmaPorts.discover(), settings, localRank, PcieLocation.ANYWHERE);
      return request.ports().isEmpty() ? "no port is usable" : "";
    } catch (InvalidArgumentException | WireException e) {
      return String.valueOf(e.getMessage());
    }
  }

  /** As many as queue pairs: each lane has one of its own. */
  @Override
  public boolean choosesLanes() {
    return true;
  }

  @Override
  public Wire open(Group group, WireConfig config) {
    RdmaSettings settings = RdmaSettings.of(System.getenv());
    return new VerbsConnectionSetup(group, config, settings, RdmaPorts.localRank(group)).open();
  }
}
