package org.ep4j.balance;

import java.util.Arrays;
import org.ep4j.error.InvalidArgumentException;

/**
 * Chooses replicas and ranks such that the busiest rank has little load. An expert's load divides
 * evenly among its replicas.
 *
 * <p>The largest replica and the packing of equal slots pull into different directions: replicas
 * that halve the hottest experts make large pieces of similar size, of which two do not fit onto a
 * rank. So several numbers of such replicas are tried, each packed greedily and improved by
 * exchanges; cases with few slots are then searched completely.
 */
public final class Balancer {
  /** Experts with their replicas; arrays and times stay small. */
  public static final int MAX_SLOTS = 1 << 20;

  /** A busiest rank within a thousandth of the bound is balanced: loads change by more. */
  private static final double ENOUGH = 1e-3;

  /** Slots that all attempts pack together: milliseconds on 32 ranks, seconds on 2048. */
  private static final int SLOTS_OF_ATTEMPTS = 10_000;

  private final long[] load;
  private final int[] slots;
  private final int replicas;

  private Balancer(long[] load, int ranks, int replicas) {
    this.load = load;
    this.replicas = replicas;
    slots = Packing.slots(load.length + replicas, ranks);
  }

  /**
   * Balances over all ranks.
   *
   * @param load tokens of each expert
   * @param ranks number of ranks
   * @param replicas slots beyond one for each expert
   * @return the expert in each slot, slots in blocks on the ranks, ascending on each rank
   * @throws InvalidArgumentException as {@code ExpertPlacement.balance} states
   */
  public static int[] balance(long[] load, int ranks, int replicas) {
    BalanceChecks.check(load, ranks, replicas);
    return new Balancer(load.clone(), ranks, replicas).balance();
  }

  /**
   * Balances groups over nodes, then the experts of each node over its ranks.
   *
   * @param groups groups of consecutive experts
   * @param ranksPerNode ranks of a node
   * @return as {@link #balance(long[], int, int)}
   * @throws InvalidArgumentException as {@code ExpertPlacement.balance} states
   */
  public static int[] balance(long[] load, int ranks, int replicas, int groups, int ranksPerNode) {
    BalanceChecks.check(load, ranks, replicas);
    BalanceChecks.checkGroups(load.length, ranks, replicas, groups, ranksPerNode);
    int nodes = ranks / ranksPerNode;
    int size = load.length / groups;
    int[] groupIn = new Balancer(loadOf(load, groups), nodes, 0).balance();
    int onNode = groups / nodes * size;
    int[] expertIn = new int[load.length + replicas];
    int slot = 0;
    for (int node = 0; node < nodes; node++) {
      int[] experts = new int[onNode];
      for (int i = 0; i < onNode; i++) {
        experts[i] = groupIn[node * (groups / nodes) + i / size] * size + i % size;
      }
      long[] own = Arrays.stream(experts).mapToLong(e -> load[e]).toArray();
      for (int i : new Balancer(own, ranksPerNode, replicas / nodes).balance()) {
        expertIn[slot++] = experts[i];
      }
    }
    return expertIn;
  }

  private static long[] loadOf(long[] load, int groups) {
    long[] sums = new long[groups];
    for (int e = 0; e < load.length; e++) {
      sums[e / (load.length / groups)] += load[e];
    }
    return sums;
  }

  /**
   * The least load that a busiest rank can have by two reasons: the mean of all ranks, and the
   * largest replica when replicas go where they are needed the most. Equal slots may need more.
   */
  public static double bound(long[] load, int ranks, int replicas) {
    int[] counts = ReplicaCounts.hottestFirst(load, replicas, ranks);
    double bound = (double) Arrays.stream(load).sum() / ranks;
    for (int e = 0; e < load.length; e++) {
      bound = Math.max(bound, (double) load[e] / counts[e]);
    }
    return bound;
  }

  private int[] balance() {
    double bound = bound(load, slots.length, replicas);
    Packing best = pack(replicas, bound);
    int attempts = Math.min(replicas, SLOTS_OF_ATTEMPTS / (load.length + replicas));
    for (int i = 1; i <= attempts && best.max() > bound * (1 + ENOUGH); i++) {
      Packing other = pack(replicas - (int) ((long) replicas * i / attempts), bound);
      if (other.max() < best.max()) {
        best = other;
      }
    }
    int[] expertIn = best.experts();
    if (expertIn.length <= OptimalPacking.MAX_SLOTS) {
      int[] better = OptimalPacking.better(load, slots, bound, best.max());
      expertIn = better.length > 0 ? better : expertIn;
    }
    for (int r = 0, slot = 0; r < slots.length; slot += slots[r++]) {
      Arrays.sort(expertIn, slot, slot + slots[r]);
    }
    return expertIn;
  }

  /** Packs with {@code hot} replicas of the hottest experts, the others of the coldest. */
  private Packing pack(int hot, double bound) {
    int[] counts = ReplicaCounts.hottestThenColdest(load, hot, replicas, slots.length);
    double[] weight = new double[load.length];
    Arrays.setAll(weight, e -> (double) load[e] / counts[e]);
    return Packing.of(counts, weight, slots, bound * (1 + ENOUGH));
  }
}
