package org.ep4j.micrometer;

import java.util.List;
import org.ep4j.observe.RankObservation;
import org.ep4j.observe.WorldObservation;
import org.jspecify.annotations.Nullable;

/** What a rank has observed, as the values of meters. Immutable. */
final class Seen {
  private static final double NANOS = 1e9;

  /** Seconds by rank; null before the first window of operations. */
  private final double @Nullable [] waits;

  private final double period;
  private final double balancedness;
  private final long timeouts;
  private final double timeoutPeer;
  private final boolean[] own;
  private final long[] counted;
  private final long rest;

  Seen(RankObservation observation, ExpertSeries experts) {
    WorldObservation world = WorldObservation.of(List.of(observation));
    boolean waited = world.operations() > 0;
    period = waited ? world.periodNanos() / NANOS : Double.NaN;
    waits = waited ? new double[world.ranks()] : null;
    for (int peer = 0; waits != null && peer < waits.length; peer++) {
      waits[peer] = world.waitedNanos(observation.rank(), peer) / NANOS;
    }
    balancedness = balancedness(observation);
    timeouts = observation.timeouts();
    timeoutPeer = timeouts == 0 ? Double.NaN : observation.timeoutPeer();
    own = experts.own();
    counted = experts.counted();
    rest = experts.rest();
  }

  private static double balancedness(RankObservation observation) {
    long max = 0;
    double sum = 0;
    for (int i = 0; i < observation.localExperts(); i++) {
      max = Math.max(max, observation.tokens(i));
      sum += observation.tokens(i);
    }
    return max == 0 ? Double.NaN : sum / observation.localExperts() / max;
  }

  double timeouts() {
    return timeouts;
  }

  /** The rank that the last timeout named; NaN before. */
  double timeoutPeer() {
    return timeoutPeer;
  }

  double period() {
    return period;
  }

  double waitFor(int peer) {
    return waits == null ? Double.NaN : waits[peer];
  }

  double longestWait() {
    int peer = longest();
    return waits == null ? Double.NaN : peer < 0 ? 0 : waits[peer];
  }

  double longestWaitPeer() {
    int peer = longest();
    return peer < 0 ? Double.NaN : peer;
  }

  private int longest() {
    int found = -1;
    double longest = 0;
    for (int peer = 0; waits != null && peer < waits.length; peer++) {
      if (waits[peer] > longest) {
        longest = waits[peer];
        found = peer;
      }
    }
    return found;
  }

  double balancedness() {
    return balancedness;
  }

  /** Whether a local expert has a counter of its own. */
  boolean hasCounter(int local) {
    return own[local];
  }

  /** The counter of a local expert. */
  double tokens(int local) {
    return counted[local];
  }

  /** The counter of all other experts. */
  double rest() {
    return rest;
  }
}
