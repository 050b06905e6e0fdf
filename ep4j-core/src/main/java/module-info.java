/** Expert parallelism for the JVM: dispatch and combine of a Mixture-of-Experts layer. */
module org.ep4j {
  requires static jdk.incubator.vector;
  requires static transitive org.jspecify;

  exports org.ep4j;
  exports org.ep4j.engine to
      org.ep4j.cli,
      org.ep4j.conformance,
      org.ep4j.cuda;
  exports org.ep4j.group;
  exports org.ep4j.group.rendezvous to
      org.ep4j.cli,
      org.ep4j.conformance;
  exports org.ep4j.memory to
      org.ep4j.bench,
      org.ep4j.cli,
      org.ep4j.conformance,
      org.ep4j.cuda,
      org.ep4j.nccl,
      org.ep4j.nvshmem,
      org.ep4j.rdma,
      org.ep4j.verify;
  exports org.ep4j.wire;
  exports org.ep4j.wire.support to
      org.ep4j.conformance,
      org.ep4j.cuda,
      org.ep4j.nccl,
      org.ep4j.rdma;
  exports org.ep4j.wire.tcp to
      org.ep4j.conformance,
      org.ep4j.nccl;

  uses org.ep4j.engine.DeviceAccess;
  uses org.ep4j.engine.EngineProvider;
  uses org.ep4j.wire.WireProvider;

  provides org.ep4j.engine.EngineProvider with
      org.ep4j.engine.host.buffer.HostEngineProvider;
  provides org.ep4j.wire.WireProvider with
      org.ep4j.wire.direct.InProcessWireProvider,
      org.ep4j.wire.direct.SharedMemoryWireProvider,
      org.ep4j.wire.tcp.TcpWireProvider;
}
