/** Expert parallelism for the JVM: dispatch and combine of a Mixture-of-Experts layer. */
module org.ep4j {
  requires static jdk.incubator.vector;
  requires static transitive org.jspecify;
  requires transitive jdk.jfr;

  exports org.ep4j;
  exports org.ep4j.config;
  exports org.ep4j.error;
  exports org.ep4j.execution;
  exports org.ep4j.routing;
  exports org.ep4j.tensor;
  exports org.ep4j.engine;
  exports org.ep4j.engine.lowlatency;
  exports org.ep4j.engine.throughput;
  exports org.ep4j.engine.world;
  exports org.ep4j.group;
  exports org.ep4j.group.rendezvous;
  exports org.ep4j.memory;
  exports org.ep4j.observe;
  exports org.ep4j.relocation;
  exports org.ep4j.wire;
  exports org.ep4j.wire.support;
  exports org.ep4j.wire.tcp;
  exports org.ep4j.engine.host.kernel to
      org.ep4j.moe;

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
