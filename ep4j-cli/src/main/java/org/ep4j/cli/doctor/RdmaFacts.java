package org.ep4j.cli.doctor;

import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.ep4j.error.InvalidArgumentException;
import org.ep4j.rdma.verbs.ports.PcieLocation;
import org.ep4j.rdma.verbs.ports.PortChoice;
import org.ep4j.rdma.verbs.ports.PortOrder;
import org.ep4j.rdma.verbs.ports.RdmaPort;
import org.ep4j.rdma.verbs.ports.RdmaPorts;
import org.ep4j.rdma.verbs.ports.RdmaSettings;
import org.ep4j.wire.WireException;

/** The RDMA ports of this host, and their use by the wire {@code verbs}. */
final class RdmaFacts {
  private static final String PORTS = "Network";
  private static final String SETTINGS = "RDMA settings";

  private RdmaFacts() {}

  static List<Finding> ports(List<RdmaPort> ports) {
    if (ports.isEmpty()) {
      return List.of(
          Finding.missing(
              PORTS,
              "RDMA devices",
              "none below " + RdmaPorts.DEVICES,
              "ranks of one host need none; between hosts auto takes the wire tcp"));
    }
    return ports.stream().map(RdmaFacts::port).toList();
  }

  private static Finding port(RdmaPort port) {
    String value = "%s, %s, %s".formatted(port.state(), port.rate(), port.linkLayer());
    if (!port.active()) {
      return Finding.warning(
          PORTS, "RDMA port " + port.name(), value, "not active: no traffic can use it");
    }
    List<String> meaning = new ArrayList<>();
    port.addresses().stream()
        .filter(address -> address.index() == port.usualAddress())
        .forEach(address -> meaning.add("GID %d is %s".formatted(address.index(), address.gid())));
    if (port.numaNode() >= 0) {
      meaning.add("NUMA node " + port.numaNode());
    }
    if (!port.pciPath().isEmpty()) {
      meaning.add("at " + port.pciPath().replaceFirst("^.*/devices/", ""));
    }
    return Finding.found(PORTS, "RDMA port " + port.name(), value, String.join("; ", meaning));
  }

  /**
   * Each effective value and its source.
   *
   * @param senders devices or cores that the local ranks send from, by name
   */
  static List<Finding> settings(
      Map<String, String> environment, List<RdmaPort> ports, Map<String, PcieLocation> senders) {
    RdmaSettings settings;
    try {
      settings = RdmaSettings.of(environment);
    } catch (InvalidArgumentException e) {
      return List.of(
          Finding.warning(
              SETTINGS, "unusable variables", "refused", String.valueOf(e.getMessage())));
    }
    List<Finding> findings = new ArrayList<>();
    findings.addAll(chosen(environment, settings, ports, senders));
    Map<String, String> values = new LinkedHashMap<>();
    values.put(
        RdmaSettings.GID_INDEX,
        settings.gidIndex() < 0 ? "automatic" : String.valueOf(settings.gidIndex()));
    values.put(RdmaSettings.SERVICE_LEVEL, String.valueOf(settings.serviceLevel()));
    values.put(RdmaSettings.TRAFFIC_CLASS, String.valueOf(settings.trafficClass()));
    values.put(RdmaSettings.QPS_PER_PORT, String.valueOf(settings.queuePairsPerPort()));
    values.put(RdmaSettings.QP_DEPTH, String.valueOf(settings.depth()));
    values.put(RdmaSettings.TIMEOUT, String.valueOf(settings.timeout()));
    values.put(RdmaSettings.RETRY_COUNT, String.valueOf(settings.retries()));
    values.put(RdmaSettings.GPUDIRECT, settings.gpuDirect() ? "on" : "off");
    String library = environment.getOrDefault(RdmaSettings.LIBRARY, "");
    if (!library.isBlank()) {
      values.put(RdmaSettings.LIBRARY, library);
    }
    values.forEach(
        (name, value) ->
            findings.add(Finding.found(SETTINGS, name, value, origin(environment, name))));
    return findings;
  }

  /** The ports of each local rank in the order of their distance, and its choice. */
  private static List<Finding> chosen(
      Map<String, String> environment,
      RdmaSettings settings,
      List<RdmaPort> ports,
      Map<String, PcieLocation> senders) {
    String name = RdmaSettings.HCA;
    List<PortChoice> choices;
    try {
      choices = RdmaPorts.choose(ports, settings, List.copyOf(senders.values()));
    } catch (WireException e) {
      return List.of(
          ports.isEmpty()
              ? Finding.missing(SETTINGS, name, "no port", String.valueOf(e.getMessage()))
              : Finding.warning(SETTINGS, name, "no usable port", String.valueOf(e.getMessage())));
    }
    List<Finding> findings = new ArrayList<>();
    String given = environment.getOrDefault(name, "").strip();
    findings.add(
        Finding.found(
            SETTINGS, name, given.isEmpty() ? "automatic" : given, origin(environment, name)));
    int localRank = 0;
    for (Map.Entry<String, PcieLocation> sender : senders.entrySet()) {
      PortChoice choice = choices.get(localRank);
      findings.add(
          Finding.found(
              SETTINGS,
              "ports of local rank " + localRank,
              String.join(",", choice.ports().stream().map(RdmaPort::name).toList()),
              "from %s: %s%s"
                  .formatted(
                      sender.getKey(),
                      PortOrder.of(ports, sender.getValue()),
                      choice.first() == 0
                          ? ""
                          : "; lane 0 uses " + choice.ports().get(choice.first()).name())));
      localRank++;
    }
    return findings;
  }

  /** The devices of this host, one per local rank; without devices, its cores. */
  static Map<String, PcieLocation> senders() {
    Map<String, PcieLocation> senders = new LinkedHashMap<>();
    CudaFacts.addresses()
        .forEach((name, bus) -> senders.put(name + " at " + bus, PcieLocation.of(bus)));
    if (senders.isEmpty()) {
      PcieLocation cores = PcieLocation.of("");
      senders.put(
          cores.numaNode() < 0 ? "all cores" : "the cores of NUMA node " + cores.numaNode(), cores);
    }
    return senders;
  }

  private static String origin(Map<String, String> environment, String name) {
    return environment.getOrDefault(name, "").isBlank() ? "default" : "from the environment";
  }
}
