/** CUDA for ep4j: driver and compiler bindings, kernels, and their compilation at run time. */
module org.ep4j.cuda {
  requires transitive org.ep4j;
  requires static org.jspecify;

  exports org.ep4j.cuda.backend;
  exports org.ep4j.cuda.driver;
  exports org.ep4j.cuda.driver.calls to
      org.ep4j.cli,
      org.ep4j.moe,
      org.ep4j.nccl,
      org.ep4j.nvshmem;
  exports org.ep4j.cuda.driver.compiler to
      org.ep4j.cli,
      org.ep4j.moe,
      org.ep4j.nvshmem;
  exports org.ep4j.cuda.internode.proxy to
      org.ep4j.bench,
      org.ep4j.cli,
      org.ep4j.nccl;
  exports org.ep4j.cuda.jit;
  exports org.ep4j.cuda.probe to
      org.ep4j.bench,
      org.ep4j.cli;
  exports org.ep4j.cuda.put;

  uses org.ep4j.cuda.backend.BackendProvider;

  provides org.ep4j.cuda.backend.BackendProvider with
      org.ep4j.cuda.backend.direct.DirectBackendProvider;
  provides org.ep4j.engine.EngineProvider with
      org.ep4j.cuda.engine.CudaEngineProvider;
  provides org.ep4j.engine.DeviceAccess with
      org.ep4j.cuda.driver.CudaDeviceAccess;
}
