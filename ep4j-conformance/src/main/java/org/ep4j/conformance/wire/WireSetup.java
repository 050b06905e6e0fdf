package org.ep4j.conformance.wire;

import java.util.List;
import org.ep4j.conformance.world.TestScale;
import org.ep4j.wire.WireConfig;

/**
 * The wire under test and its options; passed to the ranks as text.
 *
 * @param wire kind of wire
 * @param seed of all random choices
 * @param faults whether a {@link FaultyWire} wraps the wire
 * @param encrypted as {@link WireConfig#encrypted()}
 * @param connections as {@link WireConfig#connections()}, per progress context
 */
public record WireSetup(
    String wire, long seed, boolean faults, boolean encrypted, int connections) {
  /** A wire with defaults and a new seed, or the seed of {@code ep4j.seed}. */
  public static WireSetup of(String wire) {
    return new WireSetup(wire, TestScale.seed(), false, false, 0);
  }

  /** The same with faults. */
  public WireSetup withFaults(long seed) {
    return new WireSetup(wire, seed, true, encrypted, connections);
  }

  /** The same, encrypted. */
  public WireSetup withEncryption() {
    return new WireSetup(wire, seed, faults, true, connections);
  }

  /** The same with several connections. */
  public WireSetup withConnections(int connections) {
    return new WireSetup(wire, seed, faults, encrypted, connections);
  }

  WireConfig.Builder applied(WireConfig.Builder config) {
    int progressContexts = config.build().progressContexts();
    return config.encrypted(encrypted).connections(connections * progressContexts);
  }

  List<String> arguments() {
    return List.of(
        wire,
        String.valueOf(seed),
        String.valueOf(faults),
        String.valueOf(encrypted),
        String.valueOf(connections));
  }

  /** The inverse of {@link #arguments()}; ignores further arguments. */
  static WireSetup parse(List<String> arguments) {
    return new WireSetup(
        arguments.get(0),
        Long.parseLong(arguments.get(1)),
        Boolean.parseBoolean(arguments.get(2)),
        Boolean.parseBoolean(arguments.get(3)),
        Integer.parseInt(arguments.get(4)));
  }
}
