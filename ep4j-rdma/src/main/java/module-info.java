/** Wires of ep4j between hosts: RDMA verbs and UCX. The libraries are loaded at run time. */
module org.ep4j.rdma {
  requires transitive org.ep4j;
  requires static org.jspecify;

  exports org.ep4j.rdma.verbs.ports to
      org.ep4j.bench,
      org.ep4j.cli;

  provides org.ep4j.wire.WireProvider with
      org.ep4j.rdma.ucx.UcxWireProvider,
      org.ep4j.rdma.verbs.VerbsWireProvider;
}
