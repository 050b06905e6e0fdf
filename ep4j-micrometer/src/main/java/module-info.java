/** Metrics of a buffer for Micrometer. */
module org.ep4j.micrometer {
  requires transitive org.ep4j;
  requires transitive micrometer.core;
  requires static org.jspecify;

  exports org.ep4j.micrometer;
}
