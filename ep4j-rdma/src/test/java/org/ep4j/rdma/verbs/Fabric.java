package org.ep4j.rdma.verbs;

/**
 * Whether this machine has RDMA ports to test with; {@code tools/rxe-vm test} makes one that has.
 */
final class Fabric {
  static final String REASON = "no two active RDMA ports here; tools/rxe-vm test makes some";

  private Fabric() {}

  static boolean present() {
    return VerbsLibrary.problem().isEmpty()
        && RdmaPorts.discover().stream().filter(RdmaPort::active).count() >= 2;
  }
}
