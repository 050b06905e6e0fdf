package org.ep4j.balance;

import java.util.Arrays;
import java.util.Comparator;
import java.util.TreeSet;
import java.util.function.IntToDoubleFunction;
import java.util.stream.IntStream;

/**
 * Replicas in the slots of ranks. All ranks fill their slots, and no rank holds two replicas of an
 * expert. Loads of ranks are sums in the order of slots: equal inputs give equal bits on every
 * machine.
 */
final class Packing {
  /** A smaller gain is rounding. */
  private static final double GAIN = 1e-9;

  private static final int FREE = -1;

  private final double[] weight;

  /** First slot of each rank, and the number of all slots at the end. */
  private final int[] first;

  private final int[] expertIn;
  private final int[] used;
  private final double[] load;

  /**
   * @param weight load of one replica of each expert
   * @param slots slots of each rank
   */
  private Packing(double[] weight, int[] slots) {
    this.weight = weight;
    first = new int[slots.length + 1];
    for (int r = 0; r < slots.length; r++) {
      first[r + 1] = first[r] + slots[r];
    }
    expertIn = new int[first[slots.length]];
    Arrays.fill(expertIn, FREE);
    used = new int[slots.length];
    load = new double[slots.length];
  }

  /** The slots of each rank: equal, or one more on the first ranks, as in blocks. */
  static int[] slots(int all, int ranks) {
    int[] slots = new int[ranks];
    Arrays.setAll(slots, r -> all / ranks + (r < all % ranks ? 1 : 0));
    return slots;
  }

  /** Numbers from 0 in ascending order of a key; the lower number comes first in ties. */
  static Integer[] order(int count, IntToDoubleFunction key) {
    Integer[] order = IntStream.range(0, count).boxed().toArray(Integer[]::new);
    Arrays.sort(order, Comparator.comparingDouble(key::applyAsDouble));
    return order;
  }

  /**
   * Packs greedily, then exchanges slots until the busiest rank has no better partner.
   *
   * @param counts replicas of each expert, as many as slots, at most one for each rank
   * @param weight load of one replica of each expert
   * @param enough load of the busiest rank that needs no improvement
   */
  static Packing of(int[] counts, double[] weight, int[] slots, double enough) {
    Packing packing = new Packing(weight, slots);
    packing.fill(counts);
    packing.improve(enough);
    return packing;
  }

  /** The heaviest replicas first, each to the rank with the least load that can take it. */
  private void fill(int[] counts) {
    TreeSet<Integer> open =
        new TreeSet<>(
            Comparator.<Integer>comparingDouble(r -> load[r])
                .thenComparing(Comparator.naturalOrder()));
    for (int r = 0; r < load.length; r++) {
      open.add(r);
    }
    for (int expert : order(counts.length, e -> -weight[e])) {
      for (int i = 0; i < counts[expert]; i++) {
        int rank = lightest(open, expert);
        if (rank >= 0) {
          open.remove(rank);
          add(rank, expert);
        } else {
          // All ranks with free slots hold the expert.
          rank = open.removeFirst();
          add(rank, exchange(expert, rank));
        }
        if (used[rank] < slotsOf(rank)) {
          open.add(rank);
        }
      }
    }
  }

  private int lightest(Iterable<Integer> open, int expert) {
    for (int rank : open) {
      if (!holds(rank, expert)) {
        return rank;
      }
    }
    return -1;
  }

  /**
   * Puts an expert onto a full rank, in the place of one that {@code rank} does not hold. There is
   * such a rank: an expert has no more replicas than there are ranks. There is such a place: the
   * full rank has no fewer experts than {@code rank}, which holds {@code expert} beside them.
   *
   * @return the expert that was there
   */
  private int exchange(int expert, int rank) {
    for (int full = 0; full < load.length; full++) {
      if (used[full] < slotsOf(full) || holds(full, expert)) {
        continue;
      }
      for (int s = first[full]; s < first[full + 1]; s++) {
        int other = expertIn[s];
        if (!holds(rank, other)) {
          expertIn[s] = expert;
          sum(full);
          return other;
        }
      }
    }
    throw new AssertionError("an expert has more replicas than there are ranks");
  }

  /**
   * Exchanges a slot of the busiest rank with one of another rank, such that the busier of both has
   * the least load, until nothing is gained.
   */
  private void improve(double enough) {
    while (true) {
      int busiest = busiest();
      double top = load[busiest];
      if (top <= enough) {
        return;
      }
      double best = top * (1 - GAIN);
      int give = FREE;
      int take = FREE;
      int partner = FREE;
      for (int rank : order(load.length, r -> load[r])) {
        // At best, both ranks have their mean.
        if ((top + load[rank]) / 2 >= best) {
          break;
        }
        for (int s = first[busiest]; s < first[busiest + 1]; s++) {
          int expert = expertIn[s];
          if (holds(rank, expert)) {
            continue;
          }
          for (int t = first[rank]; t < first[rank + 1]; t++) {
            double moved = weight[expert] - weight[expertIn[t]];
            double busier = Math.max(top - moved, load[rank] + moved);
            if (busier < best && !holds(busiest, expertIn[t])) {
              best = busier;
              give = s;
              take = t;
              partner = rank;
            }
          }
        }
      }
      if (partner == FREE) {
        return;
      }
      int expert = expertIn[give];
      expertIn[give] = expertIn[take];
      expertIn[take] = expert;
      sum(busiest);
      sum(partner);
    }
  }

  private int busiest() {
    int busiest = 0;
    for (int r = 1; r < load.length; r++) {
      if (load[r] > load[busiest]) {
        busiest = r;
      }
    }
    return busiest;
  }

  private boolean holds(int rank, int expert) {
    for (int s = first[rank]; s < first[rank] + used[rank]; s++) {
      if (expertIn[s] == expert) {
        return true;
      }
    }
    return false;
  }

  private int slotsOf(int rank) {
    return first[rank + 1] - first[rank];
  }

  private void add(int rank, int expert) {
    expertIn[first[rank] + used[rank]++] = expert;
    sum(rank);
  }

  private void sum(int rank) {
    double sum = 0;
    for (int s = first[rank]; s < first[rank] + used[rank]; s++) {
      sum += weight[expertIn[s]];
    }
    load[rank] = sum;
  }

  /** Load of the busiest rank. */
  double max() {
    return load[busiest()];
  }

  /** The expert in each slot, those of rank 0 first. */
  int[] experts() {
    return expertIn;
  }
}
