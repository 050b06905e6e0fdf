package org.ep4j.conformance.wire;

import static org.ep4j.conformance.wire.WireContext.check;
import static org.ep4j.conformance.wire.WireContext.fill;
import static org.ep4j.conformance.wire.WireContext.verify;

import java.time.Duration;
import java.util.List;
import java.util.SplittableRandom;
import org.ep4j.conformance.world.RankJob;
import org.ep4j.group.Group;
import org.ep4j.wire.Lane;
import org.ep4j.wire.LaneFailedException;
import org.ep4j.wire.Region;
import org.ep4j.wire.Wire;
import org.ep4j.wire.WireConfig;
import org.ep4j.wire.WireException;
import org.ep4j.wire.WireWait;
import org.ep4j.wire.Wires;

/**
 * One campaign: the ranks exchange rounds over a faulty wire while one of them dies at a step drawn
 * from the seed. The other ranks must detect the death, name the rank and continue; counted data
 * must be complete, on all ranks, and never duplicated.
 */
public final class WireKillJob implements RankJob {
  private static final int ROUNDS = 12;
  private static final long SLOT = 3_000;
  private static final Duration TIMEOUT = Duration.ofSeconds(30);

  /** Used by the worlds. */
  public WireKillJob() {}

  @Override
  public void run(Group group, List<String> arguments) {
    WireSetup setup = WireSetup.parse(arguments);
    SplittableRandom random = new SplittableRandom(setup.seed());
    int victim = random.nextInt(group.size());
    long step = 1L + random.nextInt(400);
    WireConfig.Builder config =
        setup.applied(WireConfig.builder().wire(setup.wire()).timeout(TIMEOUT));
    Wire inner = Wires.open(group, config.build());
    FaultPlan plan = FaultPlan.legal(setup.seed());
    Wire wire = new FaultyWire(inner, group.rank() == victim ? plan.killingAt(step) : plan);
    Region source = wire.allocate(SLOT * ROUNDS, TIMEOUT);
    Region target = wire.allocate(SLOT * ROUNDS * group.size(), TIMEOUT);
    try {
      exchange(group, wire, source, target, victim);
      wire.close();
    } catch (RankKilled e) {
      if (group.inProcess()) {
        // As if its thread had ended: the wire is left unchanged.
        group.fail(e.toString());
      } else {
        Runtime.getRuntime().halt(0);
      }
    } catch (RuntimeException | AssertionError e) {
      throw new AssertionError(
          "campaign %s, rank %d: rank %d dies at step %d"
              .formatted(setup, group.rank(), victim, step),
          e);
    }
  }

  private static void exchange(Group group, Wire wire, Region source, Region target, int victim) {
    int rank = group.rank();
    WireWait wait = new WireWait(wire, 0, TIMEOUT);
    for (int round = 0; round < ROUNDS; round++) {
      fill(source.segment(), round * SLOT, SLOT, tag(rank, round));
    }
    for (int round = 0; round < ROUNDS; round++) {
      for (int peer = 0; peer < wire.size(); peer++) {
        long to = SLOT * (rank * ROUNDS + round);
        long at = round * SLOT;
        int lane = round % wire.config().lanes();
        int number = round;
        if (peer != rank) {
          Lane laneToPeer = wire.lane(peer, lane);
          tolerated(victim, peer, () -> send(wait, laneToPeer, source, at, target, to, number));
        }
      }
      for (int peer = 0; peer < wire.size(); peer++) {
        int from = peer;
        int counter = peer * ROUNDS + round;
        if (peer != rank) {
          tolerated(victim, peer, () -> wait.counter(counter, 1, from));
        }
      }
    }
    for (int peer = 0; peer < wire.size(); peer++) {
      int to = peer;
      if (peer != rank) {
        for (int i = 0; i < wire.config().lanes(); i++) {
          Lane lane = wire.lane(to, i);
          tolerated(victim, peer, () -> wait.delivery(lane));
        }
      }
    }
    for (int peer = 0; peer < wire.size(); peer++) {
      for (int round = 0; peer != rank && round < ROUNDS; round++) {
        long counted = wire.counters().get(peer * ROUNDS + round);
        check(counted <= 1, "round %d of rank %d arrived %d times".formatted(round, peer, counted));
        check(
            counted == 1 || peer == victim,
            "round %d of rank %d is missing".formatted(round, peer));
        if (counted == 1) {
          verify(
              target.segment(),
              SLOT * (peer * ROUNDS + round),
              SLOT,
              tag(peer, round),
              "round %d of rank %d".formatted(round, peer));
        }
      }
    }
  }

  /** A put that an add announces, in every other round; else a put with its own count. */
  private static void send(
      WireWait wait, Lane lane, Region source, long at, Region target, long to, int round) {
    int counter = (int) (to / SLOT);
    if (round % 2 == 0) {
      wait.put(lane, source, at, target, to, SLOT, counter);
    } else {
      wait.put(lane, source, at, target, to, SLOT, Lane.NO_COUNTER);
      wait.add(lane, counter, 1);
    }
  }

  /** Runs an action with a peer, which may fail if the peer is the victim. */
  private static void tolerated(int victim, int peer, Runnable work) {
    try {
      work.run();
    } catch (WireException e) {
      check(
          peer == victim && e instanceof LaneFailedException,
          "rank " + peer + " is no victim, but: " + e);
    }
  }

  private static long tag(int rank, int round) {
    return 100L * rank + round;
  }
}
