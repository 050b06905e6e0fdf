package org.ep4j.conformance.wire;

import java.lang.foreign.Arena;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import org.ep4j.group.Group;
import org.ep4j.wire.Wire;
import org.ep4j.wire.WireConfig;
import org.ep4j.wire.WireProvider;
import org.ep4j.wire.support.CollectiveStep;
import org.ep4j.wire.tcp.CarriedWires;
import org.ep4j.wire.tcp.Carrier;
import org.ep4j.wire.tcp.CarrierService;

/**
 * The wire {@code carried}: threads of this JVM, with one {@link MatchingCarrier} per connection.
 */
public final class CarriedWireProvider implements WireProvider {
  static final String NAME = "carried";

  /** One direction of one connection of one wire. */
  private record Key(long wire, int from, int to, int index) {}

  private static final Map<Key, MatchingCarrier.Direction> DIRECTIONS = new ConcurrentHashMap<>();

  /** Used by the service loader. */
  public CarriedWireProvider() {}

  @Override
  public String name() {
    return NAME;
  }

  @Override
  public String unavailableBecause(Group group) {
    return group.inProcess() ? "" : "it connects threads of one JVM";
  }

  @Override
  public Wire open(Group group, WireConfig config) {
    return CarriedWires.open(NAME, group, config, new Service());
  }

  private static final class Service implements CarrierService {
    @Override
    public Carrier[][] open(Group group, WireConfig config) {
      long wire = CollectiveStep.numbers(group, "", System.nanoTime(), config.timeout())[0];
      Carrier[][] carriers = new Carrier[group.size()][];
      for (int peer = 0; peer < carriers.length; peer++) {
        boolean own = peer == group.rank();
        carriers[peer] = new Carrier[own ? 0 : config.connections()];
        for (int i = 0; i < carriers[peer].length; i++) {
          carriers[peer][i] =
              new MatchingCarrier(
                  direction(new Key(wire, group.rank(), peer, i)),
                  direction(new Key(wire, peer, group.rank(), i)),
                  Arena.ofShared());
        }
      }
      group.barrier(config.timeout());
      DIRECTIONS.keySet().removeIf(key -> key.wire == wire && key.to == group.rank());
      return carriers;
    }

    private static MatchingCarrier.Direction direction(Key key) {
      return DIRECTIONS.computeIfAbsent(key, ignored -> new MatchingCarrier.Direction());
    }

    @Override
    public void close() {
      // Carriers hold no resources.
    }
  }
}
