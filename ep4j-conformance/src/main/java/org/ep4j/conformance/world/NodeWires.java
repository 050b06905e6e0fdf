package org.ep4j.conformance.world;

import java.util.stream.Stream;

/**
 * Wires between nodes for tests of GPUs on one host: memory that the nodes map, and a wire whose
 * puts a proxy makes. System property {@code ep4j.wire} names another one in place of {@code tcp},
 * for example {@code verbs}.
 */
public final class NodeWires {
  private NodeWires() {}

  /** The wires. */
  public static Stream<String> all() {
    return Stream.of("staged", System.getProperty("ep4j.wire", "tcp"));
  }

  /** The wires, after {@code none}: one node. */
  public static Stream<String> orNone() {
    return Stream.concat(Stream.of("none"), all());
  }
}
