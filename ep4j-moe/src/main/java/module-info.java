/** A Mixture-of-Experts layer whose experts are spread over the ranks of a group. */
module org.ep4j.moe {
  requires transitive org.ep4j;
  requires org.ep4j.cuda;
  requires org.ep4j.verify;
  requires com.fasterxml.jackson.jr.ob;
  requires jdk.incubator.vector;
  requires static org.jspecify;

  exports org.ep4j.moe;
  exports org.ep4j.moe.gpu to
      org.ep4j.cli;
}
