package org.ep4j.cli.doctor;

import java.util.ArrayList;
import java.util.List;
import org.ep4j.rdma.verbs.ports.RdmaPorts;

/** Network libraries for wires between hosts. */
final class NetworkFacts {
  private static final String TOPIC = "Network";

  private NetworkFacts() {}

  static List<Finding> look(Libraries libraries) {
    List<Finding> findings = new ArrayList<>();
    findings.addAll(RdmaFacts.ports(RdmaPorts.discover()));
    findings.add(
        library(TOPIC, "libibverbs", "libibverbs.so.1", "RDMA; package libibverbs1", libraries));
    findings.add(library(TOPIC, "UCX", "libucp.so.0", "RDMA fabrics; package libucx0", libraries));
    return findings;
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
