/**
 * Ranks as tasks of a barrier stage of Apache Spark. On a module path: {@code --add-reads
 * org.ep4j.spark=ALL-UNNAMED}, with Spark on the class path.
 */
module org.ep4j.spark {
  requires transitive org.ep4j;
  requires static org.jspecify;

  exports org.ep4j.spark;
}
