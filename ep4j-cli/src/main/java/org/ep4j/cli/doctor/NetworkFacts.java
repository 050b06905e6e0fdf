package org.ep4j.cli.doctor;

import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;

/** What rows could travel over between hosts. */
final class NetworkFacts {
  private static final String TOPIC = "Network";
  private static final Path DEVICES = Path.of("/sys/class/infiniband");

  private NetworkFacts() {}

  static List<Finding> look(Libraries libraries) {
    List<Finding> findings = new ArrayList<>();
    List<Path> devices = SystemFiles.entries(DEVICES, "*");
    for (Path device : devices) {
      for (Path port : SystemFiles.entries(device.resolve("ports"), "*")) {
        findings.add(port(device, port));
      }
    }
    if (devices.isEmpty()) {
      findings.add(
          Finding.missing(
              TOPIC,
              "RDMA devices",
              "none below " + DEVICES,
              "ranks of one host need none; between hosts there is TCP"));
    }
    findings.add(
        library(TOPIC, "libibverbs", "libibverbs.so.1", "RDMA; package libibverbs1", libraries));
    findings.add(library(TOPIC, "UCX", "libucp.so.0", "RDMA fabrics; package libucx0", libraries));
    return findings;
  }

  private static Finding port(Path device, Path port) {
    String name = device.getFileName() + " port " + port.getFileName();
    String state = SystemFiles.line(port.resolve("state")).orElse("state unknown");
    String value =
        "%s, %s, %s"
            .formatted(
                state,
                SystemFiles.line(port.resolve("rate")).orElse("rate unknown"),
                SystemFiles.line(port.resolve("link_layer")).orElse("link unknown"));
    return state.contains("ACTIVE")
        ? Finding.found(TOPIC, name, value, "")
        : Finding.warning(TOPIC, name, value, "not active: no traffic can use it");
  }

  static Finding library(String topic, String name, String file, String use, Libraries libraries) {
    return libraries
        .find(file)
        .map(path -> Finding.found(topic, name, path.toString(), use))
        .orElseGet(
            () ->
                Finding.missing(
                    topic,
                    name,
                    "no %s in %d directories".formatted(file, libraries.searched()),
                    use));
  }
}
