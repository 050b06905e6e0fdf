/** The ep4j command line. */
@SuppressWarnings("requires-automatic") // d3, a program for browsers, has no descriptor
module org.ep4j.cli {
  requires com.fasterxml.jackson.core;
  requires d3;
  requires info.picocli;
  requires java.management;
  requires jdk.jfr;
  requires static jdk.incubator.vector;
  requires org.ep4j;
  requires org.ep4j.bench;
  requires org.ep4j.cuda;
  requires org.ep4j.moe;
  requires org.ep4j.nccl;
  requires org.ep4j.rdma;
  requires org.ep4j.verify;
  requires static org.jspecify;

  opens org.ep4j.cli to
      info.picocli;
  opens org.ep4j.cli.bench to
      info.picocli;
  opens org.ep4j.cli.cache to
      info.picocli;
  opens org.ep4j.cli.doctor to
      info.picocli;
  opens org.ep4j.cli.launch to
      info.picocli;
  opens org.ep4j.cli.plan to
      info.picocli;
  opens org.ep4j.cli.top to
      info.picocli;
  opens org.ep4j.cli.report to
      info.picocli;
  opens org.ep4j.cli.vectors to
      info.picocli;

  uses org.ep4j.engine.EngineProvider;
}
