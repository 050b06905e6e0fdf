/** Test kits that every engine and every wire must pass. */
module org.ep4j.conformance {
  requires transitive org.ep4j;
  requires java.logging;
  requires jdk.management;
  requires transitive org.ep4j.verify;
  requires transitive org.junit.jupiter.api;
  requires static org.jspecify;

  exports org.ep4j.conformance;
  exports org.ep4j.conformance.round;
  exports org.ep4j.conformance.samebits;
  exports org.ep4j.conformance.wire;
  exports org.ep4j.conformance.world;

  uses org.ep4j.engine.EngineProvider;
}
