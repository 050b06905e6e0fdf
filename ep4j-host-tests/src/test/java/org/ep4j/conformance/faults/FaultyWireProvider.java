package org.ep4j.conformance.faults;

import java.util.concurrent.atomic.AtomicLong;
import java.util.function.IntFunction;
import org.ep4j.conformance.wire.FaultPlan;
import org.ep4j.conformance.wire.FaultyWire;
import org.ep4j.conformance.world.TestScale;
import org.ep4j.group.Group;
import org.ep4j.wire.Wire;
import org.ep4j.wire.WireConfig;
import org.ep4j.wire.WireProvider;
import org.ep4j.wire.Wires;

/**
 * The wire inside a JVM with faults, for engines that open their wire by name. The faults follow
 * from {@code ep4j.seed} and from the number of wires opened before.
 */
public final class FaultyWireProvider implements WireProvider {
  static final String NAME = "faulty";

  private static final AtomicLong OPENED = new AtomicLong();
  private static final long SEED = TestScale.seed();

  private static volatile IntFunction<FaultPlan> plans = FaultyWireProvider::legal;

  /** Used by the service loader. */
  public FaultyWireProvider() {}

  private static FaultPlan legal(int rank) {
    return FaultPlan.legal(SEED + 31 * OPENED.getAndIncrement() + rank);
  }

  /** Sets the source of the faults for each rank that opens a wire. */
  static void plan(IntFunction<FaultPlan> plan) {
    plans = plan;
  }

  /** Makes wires show all faults that the contract allows. */
  static void planLegal() {
    plans = FaultyWireProvider::legal;
  }

  @Override
  public String name() {
    return NAME;
  }

  @Override
  public String unavailableBecause(Group group) {
    return group.inProcess() ? "" : "they are processes, not threads of one JVM";
  }

  @Override
  public Wire open(Group group, WireConfig config) {
    WireConfig inner =
        WireConfig.builder()
            .wire("inproc")
            .lanes(config.lanes())
            .counters(config.counters())
            .timeout(config.timeout())
            .build();
    return new FaultyWire(Wires.open(group, inner), plans.apply(group.rank()));
  }
}
