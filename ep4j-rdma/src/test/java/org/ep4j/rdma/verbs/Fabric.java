package org.ep4j.rdma.verbs;

import org.ep4j.rdma.softverbs.SoftVerbs;
import org.ep4j.rdma.verbs.bindings.VerbsLibrary;
import org.ep4j.rdma.verbs.ports.RdmaPort;
import org.ep4j.rdma.verbs.ports.RdmaPorts;

/**
 * The RDMA ports for tests: emulated devices in a build (needs a C++ compiler), Soft-RoCE in the
 * virtual machine of {@code tools/rxe-vm test}.
 */
public final class Fabric {
  static final String REASON =
      "fewer than two active RDMA ports: emulated ones need g++; or run tools/rxe-vm test";

  private static final boolean SOFT_ROCE = "1".equals(System.getenv("EP4J_RXE_VM"));

  private Fabric() {}

  static boolean present() {
    return (!SoftVerbs.isSelected() || SoftVerbs.isBuilt())
        && VerbsLibrary.problem().isEmpty()
        && RdmaPorts.discover().stream().filter(RdmaPort::active).count() >= 2;
  }

  /** Whether tests can pull the cables. */
  static boolean hasCables() {
    return present() && (SOFT_ROCE || SoftVerbs.isSelected());
  }

  /** The device of a port, for example of {@code a0}: host a, port 0. */
  static String device(String port) {
    return (SoftVerbs.isSelected() ? SoftVerbs.PREFIX : "rxe_") + port;
  }

  /** The first {@code ports} ports of two hosts, for {@code EP4J_IB_HCA}. */
  static String hosts(int ports) {
    return ports == 1
        ? device("a0") + ";" + device("b0")
        : "%s,%s;%s,%s".formatted(device("a0"), device("a1"), device("b0"), device("b1"));
  }
}
