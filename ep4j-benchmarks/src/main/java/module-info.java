/** JMH benchmarks of the kernels and of whole operations. */
module org.ep4j.benchmarks {
  requires jdk.incubator.vector;
  requires jdk.jfr;
  requires jmh.core;
  requires org.ep4j;
  requires static org.jspecify;
}
