/** NCCL as the backend between GPUs of ep4j, and as a wire; its library is found at run time. */
module org.ep4j.nccl {
  requires transitive org.ep4j.cuda;
  requires static org.jspecify;

  exports org.ep4j.nccl to
      org.ep4j.cli;

  provides org.ep4j.cuda.backend.BackendProvider with
      org.ep4j.nccl.NcclBackendProvider;
  provides org.ep4j.wire.WireProvider with
      org.ep4j.nccl.NcclWireProvider;
}
