package org.ep4j.balance;

import java.util.Arrays;
import java.util.Comparator;
import java.util.PriorityQueue;

/** Divides replicas among experts. An expert has at most one replica on a rank. */
final class ReplicaCounts {
  private ReplicaCounts() {}

  /**
   * Each further replica goes to the expert with the highest load per replica, which minimizes the
   * largest load of a replica; the lower id wins ties.
   *
   * @param load tokens of each expert
   * @param further replicas beyond one of each expert
   * @param max replicas of an expert
   * @return replicas of each expert
   */
  static int[] hottestFirst(long[] load, int further, int max) {
    int[] counts = new int[load.length];
    Arrays.fill(counts, 1);
    PriorityQueue<Integer> hottest =
        new PriorityQueue<>(
            Comparator.<Integer>comparingDouble(e -> -(double) load[e] / counts[e])
                .thenComparing(Comparator.naturalOrder()));
    for (int e = 0; e < load.length && max > 1; e++) {
      hottest.add(e);
    }
    for (int i = 0; i < further; i++) {
      int e = hottest.remove();
      counts[e]++;
      if (counts[e] < max) {
        hottest.add(e);
      }
    }
    return counts;
  }

  /**
   * The same for the first {@code hot} replicas; the others go to the coldest experts, one each in
   * turn. Equal slots force cold experts onto ranks that have enough load: halved, they add less.
   */
  static int[] hottestThenColdest(long[] load, int hot, int further, int max) {
    int[] counts = hottestFirst(load, hot, max);
    Integer[] coldest = Packing.order(load.length, e -> load[e]);
    int left = further - hot;
    for (int i = 0; left > 0; i = (i + 1) % coldest.length) {
      if (counts[coldest[i]] < max) {
        counts[coldest[i]]++;
        left--;
      }
    }
    return counts;
  }
}
