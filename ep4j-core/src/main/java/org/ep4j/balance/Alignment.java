package org.ep4j.balance;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.Comparator;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.function.Function;
import java.util.stream.IntStream;

/**
 * Renames the ranks of a placement such that most experts stay where another placement has them.
 * Ranks that exchange all their experts have the same load as before.
 */
public final class Alignment {
  private Alignment() {}

  /**
   * Matches nodes greedily by the experts that both placements have there, then the ranks of each
   * node; only ranks with equal numbers of slots change places, and nodes of such ranks.
   *
   * @param next experts of each rank
   * @param current experts of each rank; each rank has as many as in {@code next}
   * @param ranksPerNode consecutive ranks that stay together; divides the ranks
   * @return experts of each rank; those that {@code current} has there keep their slots
   */
  public static int[][] align(int[][] next, int[][] current, int ranksPerNode) {
    int nodes = next.length / ranksPerNode;
    int[] nodeOf = match(next, current, ranksPerNode);
    int[][] aligned = new int[next.length][];
    for (int node = 0; node < nodes; node++) {
      int from = nodeOf[node] * ranksPerNode;
      int to = node * ranksPerNode;
      int[][] before = Arrays.copyOfRange(current, to, to + ranksPerNode);
      int[][] after = Arrays.copyOfRange(next, from, from + ranksPerNode);
      int[] rankOf = match(after, before, 1);
      for (int r = 0; r < ranksPerNode; r++) {
        aligned[to + r] = keepSlots(after[rankOf[r]], before[r]);
      }
    }
    return aligned;
  }

  /** The experts of each place. */
  private static int[][] experts(int[][] ranks, int ranksPerPlace) {
    return sorted(ranks, ranksPerPlace, Arrays::stream);
  }

  /** The numbers of slots of the ranks of each place. */
  private static int[][] slots(int[][] ranks, int ranksPerPlace) {
    return sorted(ranks, ranksPerPlace, rank -> IntStream.of(rank.length));
  }

  /** Numbers of each place, which is one rank or several consecutive ones; ascending. */
  private static int[][] sorted(
      int[][] ranks, int ranksPerPlace, Function<int[], IntStream> ofRank) {
    int[][] places = new int[ranks.length / ranksPerPlace][];
    for (int place = 0; place < places.length; place++) {
      places[place] =
          Arrays.stream(ranks, place * ranksPerPlace, (place + 1) * ranksPerPlace)
              .flatMapToInt(ofRank)
              .sorted()
              .toArray();
    }
    return places;
  }

  /** Experts that two places share. */
  private record Overlap(int next, int current, int experts) {}

  /**
   * For each current place the next place with the same slots that takes it, the largest overlap
   * first.
   */
  private static int[] match(int[][] next, int[][] current, int ranksPerPlace) {
    int[][] slots = slots(next, ranksPerPlace);
    int[][] wanted = slots(current, ranksPerPlace);
    int[] nextOf = new int[wanted.length];
    Arrays.fill(nextOf, -1);
    boolean[] taken = new boolean[slots.length];
    for (Overlap pair : overlaps(experts(next, ranksPerPlace), experts(current, ranksPerPlace))) {
      if (nextOf[pair.current] < 0
          && !taken[pair.next]
          && Arrays.equals(slots[pair.next], wanted[pair.current])) {
        nextOf[pair.current] = pair.next;
        taken[pair.next] = true;
      }
    }
    for (int place = 0; place < wanted.length; place++) {
      for (int n = 0; nextOf[place] < 0 && n < slots.length; n++) {
        if (!taken[n] && Arrays.equals(slots[n], wanted[place])) {
          nextOf[place] = n;
          taken[n] = true;
        }
      }
    }
    return nextOf;
  }

  private static List<Overlap> overlaps(int[][] next, int[][] current) {
    Map<Integer, List<Integer>> holders = new HashMap<>();
    for (int place = 0; place < current.length; place++) {
      for (int expert : Arrays.stream(current[place]).distinct().toArray()) {
        holders.computeIfAbsent(expert, _ -> new ArrayList<>()).add(place);
      }
    }
    List<Overlap> overlaps = new ArrayList<>();
    for (int n = 0; n < next.length; n++) {
      Map<Integer, Integer> shared = new HashMap<>();
      for (int expert : Arrays.stream(next[n]).distinct().toArray()) {
        for (int place : holders.getOrDefault(expert, List.of())) {
          shared.merge(place, 1, Integer::sum);
        }
      }
      int place = n;
      shared.forEach((holder, experts) -> overlaps.add(new Overlap(place, holder, experts)));
    }
    overlaps.sort(
        Comparator.comparingInt(Overlap::experts)
            .reversed()
            .thenComparingInt(Overlap::next)
            .thenComparingInt(Overlap::current));
    return overlaps;
  }

  /** The experts of {@code after}, those of {@code before} in the same slots. */
  private static int[] keepSlots(int[] after, int[] before) {
    List<Integer> left = new ArrayList<>(Arrays.stream(after).boxed().toList());
    int[] slots = new int[after.length];
    Arrays.fill(slots, -1);
    for (int s = 0; s < slots.length; s++) {
      if (left.remove((Object) before[s])) {
        slots[s] = before[s];
      }
    }
    for (int s = 0; s < slots.length; s++) {
      if (slots[s] < 0) {
        slots[s] = left.removeFirst();
      }
    }
    return slots;
  }
}
