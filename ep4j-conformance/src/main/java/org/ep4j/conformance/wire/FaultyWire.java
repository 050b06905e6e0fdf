package org.ep4j.conformance.wire;

import java.time.Duration;
import java.util.SplittableRandom;
import java.util.concurrent.atomic.AtomicInteger;
import org.ep4j.wire.Counters;
import org.ep4j.wire.Lane;
import org.ep4j.wire.LaneFailure;
import org.ep4j.wire.Region;
import org.ep4j.wire.Wire;
import org.ep4j.wire.WireConfig;
import org.ep4j.wire.WireMemory;
import org.ep4j.wire.support.GroupWire;
import org.ep4j.wire.support.WireArguments;

/**
 * Injects faults into any wire: between the caller and the wire it delays work, lets puts overtake
 * each other and adds, splits puts, sends them twice, refuses work, loses a peer, and kills the
 * rank at any step, according to a {@link FaultPlan}. Incoming data is unchanged: faults are
 * injected at the sender.
 *
 * <p>One thread counts the steps: each progress context has its own faults, but {@code killAt} and
 * {@code dropAt} count the steps of progress context 0.
 */
public final class FaultyWire implements Wire {
  private final Wire inner;
  private final FaultPlan plan;
  private final FaultyLane[][] lanes;
  private final AtomicInteger dropped = new AtomicInteger();
  // Steps of progress context 0; accessed by its thread only.
  private long steps;

  /**
   * Wraps a wire and takes ownership of it.
   *
   * @param plan the faults of this rank; ranks may have different ones
   */
  public FaultyWire(Wire inner, FaultPlan plan) {
    this.inner = inner;
    this.plan = plan;
    lanes = new FaultyLane[inner.size()][];
    SplittableRandom random = new SplittableRandom(plan.seed() * 31 + inner.rank());
    for (int peer = 0; peer < lanes.length; peer++) {
      lanes[peer] = new FaultyLane[peer == inner.rank() ? 0 : inner.config().lanes()];
      for (int i = 0; i < lanes[peer].length; i++) {
        lanes[peer][i] = new FaultyLane(this, inner.lane(peer, i), random.split());
      }
    }
  }

  FaultPlan plan() {
    return plan;
  }

  /** Counts a step of the plan and applies its faults. */
  void step(int progressContext) {
    if (progressContext != 0) {
      return;
    }
    steps++;
    if (steps == plan.dropAt() && plan.dropped() != rank()) {
      for (FaultyLane lane : lanes[plan.dropped()]) {
        if (lane.drop(steps)) {
          dropped.incrementAndGet();
        }
      }
    }
    if (steps == plan.killAt()) {
      throw new RankKilled(plan);
    }
  }

  /** Notifies the peer of a failed lane, as the wires of ep4j do; not from a wire of others. */
  static void report(Wire wire, LaneFailure failure) {
    Wire own = wire instanceof FaultyWire faulty ? faulty.inner : wire;
    if (own instanceof GroupWire notifying) {
      notifying.report(failure);
    }
  }

  @Override
  public String name() {
    return inner.name();
  }

  @Override
  public int rank() {
    return inner.rank();
  }

  @Override
  public int size() {
    return inner.size();
  }

  @Override
  public WireConfig config() {
    return inner.config();
  }

  @Override
  public Lane lane(int peer, int index) {
    WireArguments.lane(peer, index, rank(), size(), config());
    return lanes[peer][index];
  }

  @Override
  public Region allocate(long bytes, Duration timeout) {
    return inner.allocate(bytes, timeout);
  }

  @Override
  public Region expose(WireMemory memory, Duration timeout) {
    return inner.expose(memory, timeout);
  }

  @Override
  public Region register(WireMemory memory) {
    return inner.register(memory);
  }

  @Override
  public boolean registersFreely() {
    return inner.registersFreely();
  }

  @Override
  public boolean carriesDeviceMemory() {
    return inner.carriesDeviceMemory();
  }

  @Override
  public boolean exposes(WireMemory memory) {
    return inner.exposes(memory);
  }

  @Override
  public boolean severs() {
    return inner.severs();
  }

  @Override
  public Counters counters() {
    return inner.counters();
  }

  @Override
  public int poll(int progressContext) {
    WireArguments.progressContext(progressContext, config());
    step(progressContext);
    int done = 0;
    for (FaultyLane[] toPeer : lanes) {
      for (int i = progressContext; i < toPeer.length; i += config().progressContexts()) {
        done += toPeer[i].release();
      }
    }
    return done + inner.poll(progressContext);
  }

  @Override
  public int failedLanes() {
    return inner.failedLanes() + dropped.get();
  }

  @Override
  public void close() {
    inner.close();
  }
}
