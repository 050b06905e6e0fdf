package org.ep4j.bench;

import java.util.List;
import org.ep4j.config.Layout;
import org.ep4j.verify.WorldRouting;

/**
 * Rows that ranks receive.
 *
 * @param mean mean of ranks and input sets
 * @param meanRemote mean of rows from other ranks
 * @param max maximum of ranks and input sets, including group padding
 */
public record TrafficVolume(double mean, double meanRemote, long max) {
  /** Rows of high throughput: one for each rank (FLAT) or expert (EXPERT_MAJOR) of a token. */
  public static TrafficVolume of(List<WorldRouting> sets, Layout layout, int alignment) {
    long rows = 0;
    long remote = 0;
    long max = 0;
    int ranks = sets.getFirst().ranks();
    for (WorldRouting world : sets) {
      for (int receiver = 0; receiver < ranks; receiver++) {
        long[] perExpert = new long[world.placement().localExperts(receiver)];
        long received = 0;
        for (int source = 0; source < ranks; source++) {
          long come = rows(world, layout, source, receiver, perExpert);
          received += come;
          remote += source == receiver ? 0 : come;
        }
        rows += received;
        max = Math.max(max, layout == Layout.FLAT ? received : padded(perExpert, alignment));
      }
    }
    double links = (double) ranks * sets.size();
    return new TrafficVolume(rows / links, remote / links, max);
  }

  /** Rows that a rank sends to other nodes, each once per node; mean of ranks and input sets. */
  public static double crossing(List<WorldRouting> sets, NodeChoice nodes) {
    return rowsToNodes(sets, nodes, false);
  }

  /**
   * The same with the node of the token counted, if one of its experts is there: DeepEP's benchmark
   * counts rows so.
   */
  public static double crossingWithOwnNode(List<WorldRouting> sets, NodeChoice nodes) {
    return rowsToNodes(sets, nodes, true);
  }

  private static double rowsToNodes(List<WorldRouting> sets, NodeChoice nodes, boolean own) {
    long rows = 0;
    int ranks = sets.getFirst().ranks();
    for (WorldRouting world : sets) {
      for (int source = 0; source < ranks; source++) {
        for (int token = 0; token < world.tokens(source); token++) {
          int last = own ? -1 : nodes.of(source);
          for (int receiver = 0; receiver < ranks; receiver++) {
            int node = nodes.of(receiver);
            boolean counts = own || node != nodes.of(source);
            if (counts && node != last && world.goesTo(source, token, receiver)) {
              rows++;
              last = node;
            }
          }
        }
      }
    }
    return (double) rows / ranks / sets.size();
  }

  /**
   * Rows of low latency that a rank receives from ranks of other nodes: one for each rank (FLAT) or
   * expert (EXPERT_MAJOR) of a token; mean of ranks and input sets.
   */
  public static double internodeRows(List<WorldRouting> sets, Layout layout, NodeChoice nodes) {
    long rows = 0;
    int ranks = sets.getFirst().ranks();
    for (WorldRouting world : sets) {
      for (int receiver = 0; receiver < ranks; receiver++) {
        long[] perExpert = new long[world.placement().localExperts(receiver)];
        for (int source = 0; source < ranks; source++) {
          boolean internode = nodes.of(source) != nodes.of(receiver);
          rows += internode ? rows(world, layout, source, receiver, perExpert) : 0;
        }
      }
    }
    return (double) rows / ranks / sets.size();
  }

  /** Rows from one rank to another, summed over the experts of the receiver. */
  private static long rows(
      WorldRouting world, Layout layout, int source, int receiver, long[] perExpert) {
    long rows = 0;
    for (int token = 0; token < world.tokens(source); token++) {
      rows +=
          layout == Layout.FLAT
              ? world.goesTo(source, token, receiver) ? 1 : 0
              : countExperts(world, source, token, receiver, perExpert);
    }
    return rows;
  }

  /**
   * Rows that a rank receives from other ranks of its node, including rows forwarded from other
   * nodes; mean of ranks and input sets.
   */
  public static double scaleUp(List<WorldRouting> sets, NodeChoice nodes) {
    long rows = 0;
    int ranks = sets.getFirst().ranks();
    for (WorldRouting world : sets) {
      for (int source = 0; source < ranks; source++) {
        for (int receiver = 0; receiver < ranks; receiver++) {
          int node = nodes.of(receiver);
          int from = node == nodes.of(source) ? source : nodes.rail(source, node, ranks);
          for (int token = 0; from != receiver && token < world.tokens(source); token++) {
            rows += world.goesTo(source, token, receiver) ? 1 : 0;
          }
        }
      }
    }
    return (double) rows / ranks / sets.size();
  }

  private static int countExperts(
      WorldRouting world, int source, int token, int receiver, long[] perExpert) {
    int count = 0;
    for (int k = 0; k < world.topK(); k++) {
      if (world.destination(source, token, k) == receiver) {
        perExpert[world.placement().localOf(world.expert(source, token, k))]++;
        count++;
      }
    }
    return count;
  }

  private static long padded(long[] perExpert, int alignment) {
    long rows = 0;
    for (long count : perExpert) {
      rows += (count + alignment - 1) / alignment * alignment;
    }
    return rows;
  }
}
