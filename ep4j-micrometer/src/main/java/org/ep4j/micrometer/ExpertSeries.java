package org.ep4j.micrometer;

import org.ep4j.observe.RankObservation;

/**
 * Tokens of the experts of a rank as a bounded number of counters: the busiest experts have one of
 * their own, all others share one.
 *
 * <p>The busiest experts change, and counters must not fall. So a token is counted once, when it is
 * first seen: for its expert if that has a counter then, otherwise for the rest. An expert that
 * gets a counter begins at 0. The sum over the increases of all counters is the number of tokens.
 *
 * <p>One thread at a time.
 */
final class ExpertSeries {
  /** By how much an expert exceeds another one to take over its counter: equal ones never do. */
  private static final double EXCESS = 1.25;

  private final int limit;
  private final long[] seen;
  private final long[] counted;
  private final boolean[] own;
  private long rest;

  /**
   * Counters of the experts that are busiest now.
   *
   * @param limit maximum number of experts with a counter of their own, at least 1
   */
  ExpertSeries(RankObservation first, int limit) {
    int experts = first.localExperts();
    this.limit = Math.min(limit, experts);
    seen = new long[experts];
    counted = new long[experts];
    own = new boolean[experts];
    for (int i = 0; i < this.limit; i++) {
      own[busiest(first)] = true;
    }
    count(first);
  }

  /** Counts the tokens since the last call, then gives counters to experts that became busier. */
  void update(RankObservation now) {
    count(now);
    for (int i = 0; i < limit; i++) {
      int busiest = busiest(now);
      int coldest = coldest(now);
      if (busiest < 0 || now.tokens(busiest) <= EXCESS * now.tokens(coldest)) {
        return;
      }
      own[coldest] = false;
      own[busiest] = true;
      counted[busiest] = 0;
    }
  }

  private void count(RankObservation now) {
    for (int i = 0; i < seen.length; i++) {
      long more = now.tokens(i) - seen[i];
      seen[i] += more;
      if (own[i]) {
        counted[i] += more;
      } else {
        rest += more;
      }
    }
  }

  /** The busiest expert without a counter; -1 if all have one. */
  private int busiest(RankObservation now) {
    int found = -1;
    for (int i = 0; i < own.length; i++) {
      if (!own[i] && (found < 0 || now.tokens(i) > now.tokens(found))) {
        found = i;
      }
    }
    return found;
  }

  /** The coldest expert with a counter. */
  private int coldest(RankObservation now) {
    int found = -1;
    for (int i = 0; i < own.length; i++) {
      if (own[i] && (found < 0 || now.tokens(i) < now.tokens(found))) {
        found = i;
      }
    }
    return found;
  }

  /** Whether all experts have a counter. */
  boolean complete() {
    return limit == own.length;
  }

  /** Which local experts have a counter; a copy. */
  boolean[] own() {
    return own.clone();
  }

  /** The counters by local expert; a copy. */
  long[] counted() {
    return counted.clone();
  }

  /** Tokens of experts while they had no counter. */
  long rest() {
    return rest;
  }
}
