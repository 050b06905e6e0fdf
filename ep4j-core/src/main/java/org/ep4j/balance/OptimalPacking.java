package org.ep4j.balance;

import java.util.Arrays;

/**
 * Searches all replica counts and all packings of a small case, by branch and bound: a branch ends
 * where it cannot become better than the best packing. Ranks with equal slots are alike, and so are
 * replicas of an expert: only one order of each is tried.
 */
final class OptimalPacking {
  /** More slots are too many packings. */
  static final int MAX_SLOTS = 14;

  /** Steps of a search, which then returns the best packing so far: tens of milliseconds. */
  private static final int MAX_STEPS = 2_000_000;

  private static final double GAIN = 1e-12;

  private final long[] load;
  private final Integer[] hottest;
  private final int[] slots;
  private final double bound;

  private final int[] counts;
  private final int[] expertOf;
  private final double[] weightOf;
  private final int[] rankOf;
  private final int[] used;
  private final double[] rankLoad;

  private double best;
  private int[] bestExpertIn = {};
  private int steps;

  private OptimalPacking(long[] load, int[] slots, double bound, double best) {
    this.load = load;
    this.slots = slots;
    this.bound = bound * (1 + GAIN);
    this.best = best;
    hottest = Packing.order(load.length, e -> -(double) load[e]);
    int all = Arrays.stream(slots).sum();
    counts = new int[load.length];
    expertOf = new int[all];
    weightOf = new double[all];
    rankOf = new int[all];
    used = new int[slots.length];
    rankLoad = new double[slots.length];
  }

  /**
   * A packing whose busiest rank has less load than {@code best}.
   *
   * @param load tokens of each expert
   * @param slots slots of each rank
   * @param bound no packing has a busiest rank with less load
   * @param best load to improve
   * @return the expert in each slot, or an empty array if no packing was found
   */
  static int[] better(long[] load, int[] slots, double bound, double best) {
    OptimalPacking search = new OptimalPacking(load, slots, bound, best);
    search.count(0, search.expertOf.length - load.length);
    return search.bestExpertIn;
  }

  private boolean ended() {
    return best <= bound || steps > MAX_STEPS;
  }

  private boolean gains(double max) {
    return max < best * (1 - GAIN);
  }

  /** Chooses the replicas of the expert at {@code place} of the hottest; {@code left} remain. */
  private void count(int place, int left) {
    if (ended()) {
      return;
    }
    steps++;
    if (place == hottest.length) {
      if (left == 0) {
        pack();
      }
      return;
    }
    int expert = hottest[place];
    int others = hottest.length - place - 1;
    for (int more = Math.min(left, slots.length - 1); more >= 0; more--) {
      boolean fit = left - more <= (long) others * (slots.length - 1);
      if (!fit || !gains((double) load[expert] / (1 + more))) {
        return; // fewer replicas of this expert fit no better
      }
      counts[expert] = 1 + more;
      count(place + 1, left - more);
    }
  }

  private void pack() {
    int item = 0;
    for (int expert : Packing.order(load.length, e -> -(double) load[e] / counts[e])) {
      for (int i = 0; i < counts[expert]; i++) {
        expertOf[item] = expert;
        weightOf[item++] = (double) load[expert] / counts[expert];
      }
    }
    place(0);
  }

  /** Tries all ranks for an item and those behind it. */
  private void place(int item) {
    if (ended()) {
      return;
    }
    steps++;
    if (item == expertOf.length) {
      keep();
      return;
    }
    boolean again = item > 0 && expertOf[item] == expertOf[item - 1];
    for (int rank = again ? rankOf[item - 1] + 1 : 0; rank < slots.length; rank++) {
      double before = rankLoad[rank];
      boolean free = used[rank] < slots[rank] && !likeAnEarlier(rank);
      if (free && gains(before + weightOf[item])) {
        rankOf[item] = rank;
        rankLoad[rank] = before + weightOf[item];
        used[rank]++;
        place(item + 1);
        used[rank]--;
        rankLoad[rank] = before;
      }
    }
  }

  /** Whether a rank is empty, and one before it with as many slots is, too. */
  private boolean likeAnEarlier(int rank) {
    if (used[rank] > 0) {
      return false;
    }
    for (int earlier = 0; earlier < rank; earlier++) {
      if (used[earlier] == 0 && slots[earlier] == slots[rank]) {
        return true;
      }
    }
    return false;
  }

  private void keep() {
    best = Arrays.stream(rankLoad).max().orElseThrow();
    bestExpertIn = new int[expertOf.length];
    int slot = 0;
    for (int rank = 0; rank < slots.length; rank++) {
      for (int item = 0; item < expertOf.length; item++) {
        if (rankOf[item] == rank) {
          bestExpertIn[slot++] = expertOf[item];
        }
      }
    }
  }
}
