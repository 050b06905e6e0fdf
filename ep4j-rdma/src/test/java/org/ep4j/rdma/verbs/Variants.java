package org.ep4j.rdma.verbs;

import java.util.Map;
import org.ep4j.group.Group;
import org.ep4j.rdma.verbs.bindings.VerbsLibrary;
import org.ep4j.rdma.verbs.ports.RdmaSettings;
import org.ep4j.wire.Wire;
import org.ep4j.wire.WireConfig;
import org.ep4j.wire.WireProvider;

/**
 * Wires {@code verbs} with different settings for one test run, registered with the service loader
 * of the tests. Even ranks use host a of the simulated fabric, odd ranks host b.
 */
public final class Variants {
  private Variants() {}

  /** Opens a wire with fixed settings. */
  public abstract static class Variant implements WireProvider {
    private final String name;
    private final RdmaSettings settings;

    Variant(String name, int ports, int queuePairs, int depth) {
      this.name = name;
      settings =
          RdmaSettings.of(
              Map.of(
                  RdmaSettings.HCA,
                  Fabric.hosts(ports),
                  RdmaSettings.QPS_PER_PORT,
                  String.valueOf(queuePairs),
                  RdmaSettings.QP_DEPTH,
                  String.valueOf(depth)));
    }

    @Override
    public String name() {
      return name;
    }

    @Override
    public String unavailableBecause(Group group) {
      return VerbsLibrary.problem();
    }

    @Override
    public boolean choosesLanes() {
      return true;
    }

    @Override
    public Wire open(Group group, WireConfig config) {
      return new VerbsConnectionSetup(group, config, settings, group.rank()).open();
    }
  }

  /** One port, one queue pair. */
  public static final class OneByOne extends Variant {
    /** Used by the service loader. */
    public OneByOne() {
      super("verbs-1x1", 1, 1, 256);
    }
  }

  /** One port, two queue pairs. */
  public static final class OneByTwo extends Variant {
    /** Used by the service loader. */
    public OneByTwo() {
      super("verbs-1x2", 1, 2, 256);
    }
  }

  /** Two ports, four queue pairs each with a small depth. */
  public static final class TwoByFour extends Variant {
    /** Used by the service loader. */
    public TwoByFour() {
      super("verbs-2x4", 2, 4, 16);
    }
  }
}
