/** NVSHMEM as the backend between GPUs of ep4j; its library is found at run time. */
module org.ep4j.nvshmem {
  requires transitive org.ep4j.cuda;
  requires static org.jspecify;

  provides org.ep4j.cuda.backend.BackendProvider with
      org.ep4j.nvshmem.NvshmemBackendProvider;
}
