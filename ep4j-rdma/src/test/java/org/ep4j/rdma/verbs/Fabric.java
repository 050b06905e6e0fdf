package org.ep4j.rdma.verbs;

import org.ep4j.rdma.verbs.bindings.VerbsLibrary;
import org.ep4j.rdma.verbs.ports.RdmaPort;
import org.ep4j.rdma.verbs.ports.RdmaPorts;

/**
 * Whether this machine has RDMA ports for tests; {@code tools/rxe-vm test} provides a virtual
 * machine with ports.
 */
final class Fabric {
  static final String REASON = "fewer than two active RDMA ports; run tools/rxe-vm test";

  private Fabric() {}

  static boolean present() {
    return VerbsLibrary.problem().isEmpty()
        && RdmaPorts.discover().stream().filter(RdmaPort::active).count() >= 2;
  }
}
