package org.ep4j.conformance.wire;

import java.util.List;
import org.ep4j.conformance.TestScale;
import org.ep4j.wire.WireConfig;

/**
 * Which wire is tried, with what; travels to the ranks as text.
 *
 * @param wire kind of wire
 * @param seed of everything random
 * @param faults whether a {@link FaultyWire} is around it
 * @param encrypted as {@link WireConfig#encrypted()}
 * @param connections as {@link WireConfig#connections()}, a strand
 */
public record WireSetup(
    String wire, long seed, boolean faults, boolean encrypted, int connections) {
  /** A wire with defaults and a fresh seed, or that of {@code ep4j.seed}. */
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

  /** What {@link #arguments()} gave; further arguments are left alone. */
  static WireSetup parse(List<String> arguments) {
    return new WireSetup(
        arguments.get(0),
        Long.parseLong(arguments.get(1)),
        Boolean.parseBoolean(arguments.get(2)),
        Boolean.parseBoolean(arguments.get(3)),
        Integer.parseInt(arguments.get(4)));
  }
}
