/** Harnesses of the benchmarks that the command line runs, and the planner. */
@SuppressWarnings("requires-automatic") // hipparchus has no descriptor
module org.ep4j.bench {
  requires static jdk.incubator.vector;
  requires hipparchus.core;
  requires hipparchus.optim;
  requires java.management;
  requires transitive org.ep4j;
  requires transitive org.ep4j.cuda;
  requires transitive org.ep4j.rdma;
  requires transitive org.ep4j.verify;
  requires static org.jspecify;

  exports org.ep4j.bench;
  exports org.ep4j.bench.proxy;
  exports org.ep4j.bench.wire;
  exports org.ep4j.plan;
  exports org.ep4j.plan.simulation;

  uses org.ep4j.engine.EngineProvider;
}
