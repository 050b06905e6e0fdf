package org.ep4j.wire;

import java.util.List;
import java.util.Map;
import org.ep4j.conformance.wire.CarriedWireProvider;
import org.ep4j.conformance.wire.FaultPlan;
import org.ep4j.conformance.wire.FaultyWire;
import org.ep4j.conformance.world.TestScale;
import org.ep4j.error.ErrorCode;
import org.ep4j.group.Group;
import org.ep4j.wire.support.CollectiveStep;

/** The wire {@code carried} with a port of its own, on the ranks that a test gives one. */
public final class PortedWireProvider implements WireProvider {
  static final String NAME = "ported";

  /** The only port. */
  static final String PORT = "test_0:1";

  /** What happens to ranks; a rank that is in none of the maps has a port that works. */
  record Plan(
      Map<Integer, String> unusable, Map<Integer, String> failing, Map<Integer, FaultPlan> faults) {
    static final Plan WORKING = new Plan(Map.of(), Map.of(), Map.of());

    static Plan unusable(int rank, String why) {
      return new Plan(Map.of(rank, why), Map.of(), Map.of());
    }

    static Plan failing(int rank, String why) {
      return new Plan(Map.of(), Map.of(rank, why), Map.of());
    }

    /** The lanes of a rank to a peer fail at its first step. */
    static Plan dropping(int rank, int peer) {
      FaultPlan plan = new FaultPlan(TestScale.seed(), false, 0, 0, -1).dropping(peer, 1);
      return new Plan(Map.of(), Map.of(), Map.of(rank, plan));
    }
  }

  /** Whether the rank of this thread has the port; in the JVM of other tests no rank has. */
  static final ThreadLocal<Boolean> HAS_PORT = ThreadLocal.withInitial(() -> false);

  static volatile Plan plan = Plan.WORKING;

  /** Used by the service loader. */
  public PortedWireProvider() {}

  @Override
  public String name() {
    return NAME;
  }

  @Override
  public List<String> ports() {
    return HAS_PORT.get() ? List.of(PORT) : List.of();
  }

  @Override
  public String unavailableBecause(Group group) {
    return plan.unusable.getOrDefault(group.rank(), "");
  }

  @Override
  public Wire open(Group group, WireConfig config) {
    String why = plan.failing.getOrDefault(group.rank(), "");
    String error = why.isEmpty() ? "" : ErrorCode.WIRE_CONNECT.message(why);
    CollectiveStep.exchange(group, error, new byte[0], config.timeout());
    Wire wire = new CarriedWireProvider().open(group, config);
    FaultPlan faults = plan.faults.get(group.rank());
    return faults == null ? wire : new FaultyWire(wire, faults);
  }
}
