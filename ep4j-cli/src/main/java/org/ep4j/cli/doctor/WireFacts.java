package org.ep4j.cli.doctor;

import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeSet;
import org.ep4j.config.WireName;
import org.ep4j.error.InvalidArgumentException;
import org.ep4j.wire.WireEnvironment;
import org.ep4j.wire.WireProvider;
import org.ep4j.wire.Wires;

/** The wires on the module path, whether they work on this host, and their settings. */
final class WireFacts {
  private static final String TOPIC = "Wires";

  private static final Map<String, String> USES =
      Map.of(
          WireName.INPROC, "threads of one JVM",
          WireName.SHM, "processes of one host",
          WireName.TCP, "any hosts",
          WireName.NCCL,
              "GPUs, one per rank, over the networks of NCCL; the default with backend nccl",
          WireName.UCX, "any fabric that UCX supports; bench wire --wire ucx",
          WireName.VERBS, "RDMA devices; what auto tries first between hosts");

  private static final String UCX_LIBRARY = "EP4J_UCX_LIBRARY";

  private WireFacts() {}

  static List<Finding> look(Map<String, String> environment) {
    List<Finding> findings = new ArrayList<>();
    Set<String> names = new TreeSet<>(Set.of(WireName.AUTO, WireName.STAGED, WireName.BACKEND));
    for (WireProvider provider : Wires.providers()) {
      names.add(provider.name());
      String problem = provider.unavailableHere();
      findings.add(
          problem.isEmpty()
              ? Finding.found(
                  TOPIC, provider.name(), "available", USES.getOrDefault(provider.name(), ""))
              : Finding.missing(TOPIC, provider.name(), "cannot be used here", problem));
    }
    try {
      for (WireEnvironment.Setting setting : WireEnvironment.of(environment).settings()) {
        findings.add(finding(setting, names));
        if (setting.variable().equals(WireEnvironment.WIRE)) {
          for (WireProvider provider : Wires.providers()) {
            findings.addAll(ports(provider, setting.value()));
          }
        }
      }
    } catch (InvalidArgumentException e) {
      findings.add(
          Finding.warning(TOPIC, "settings", "unusable variables", String.valueOf(e.getMessage())));
    }
    String library = environment.getOrDefault(UCX_LIBRARY, "");
    if (!library.isBlank()) {
      findings.add(Finding.found(TOPIC, UCX_LIBRARY, library, "the libucp.so.0 of the wire ucx"));
    }
    return findings;
  }

  /** What a selected wire makes of the ports that only another one uses. */
  static List<Finding> ports(WireProvider provider, String selected) {
    String ports = String.join(", ", provider.ports());
    boolean auto = selected.equals(WireName.AUTO);
    if (ports.isEmpty() || !(auto || selected.equals(WireName.TCP))) {
      return List.of();
    }
    if (!auto) {
      return List.of(
          Finding.warning(
              TOPIC,
              "idle ports",
              ports,
              "the wire is tcp: unset %s, and auto takes %s between hosts where it reaches all ranks"
                  .formatted(WireEnvironment.WIRE, provider.name())));
    }
    String problem = provider.unavailableHere();
    return List.of(
        problem.isEmpty()
            ? Finding.found(
                TOPIC,
                "ports of auto",
                ports,
                "between hosts auto takes %s where it reaches all ranks, else tcp"
                    .formatted(provider.name()))
            : Finding.warning(
                TOPIC,
                "idle ports",
                ports,
                "between hosts auto takes tcp, because wire %s cannot be used here: %s"
                    .formatted(provider.name(), problem)));
  }

  private static Finding finding(WireEnvironment.Setting setting, Set<String> names) {
    String name = setting.variable();
    if (name.equals(WireEnvironment.WIRE) && !names.contains(setting.value())) {
      return Finding.warning(
          TOPIC,
          name,
          setting.value(),
          "unknown wire: set it to one of " + String.join(", ", names));
    }
    String value = setting.value();
    if (name.equals(WireEnvironment.CONNECTIONS) && value.equals("0")) {
      value = "one per progress context";
    }
    String source = setting.given() ? "from the environment" : "default";
    return Finding.found(TOPIC, name, value, source);
  }
}
