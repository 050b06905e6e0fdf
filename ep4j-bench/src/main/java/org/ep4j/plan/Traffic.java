package org.ep4j.plan;

import java.util.Arrays;
import java.util.Collections;
import java.util.List;
import org.ep4j.verify.RoutingKind;

/** Rows of an operation, by rank and by pair of nodes. Immutable. */
public final class Traffic {
  private final List<RankTraffic> ranks;
  private final double[][] betweenNodes;

  /**
   * @param ranks traffic of each rank
   * @param betweenNodes rows from node to node; a row of several receivers on a node counts once
   *     for high throughput
   */
  Traffic(List<RankTraffic> ranks, double[][] betweenNodes) {
    this.ranks = List.copyOf(ranks);
    this.betweenNodes = betweenNodes;
  }

  /**
   * The traffic of a request: exact means for uniform routing of experts in equal blocks, counted
   * otherwise.
   */
  public static Traffic of(PlanRequest request) {
    return isUniform(request) ? expected(request) : CountedTraffic.of(request, RoutedTokens.SEED);
  }

  static boolean isUniform(PlanRequest request) {
    return request.routing() instanceof DrawnRouting drawn
        && drawn.kind() == RoutingKind.UNIFORM
        && request.isInBlocks();
  }

  /**
   * Exact means for uniform routing. A token that chooses K of E experts misses S of them with
   * probability C(E - S, K) / C(E, K). With grouped gating E are the experts of the chosen nodes,
   * and a node is chosen with probability groups / nodes.
   */
  static Traffic expected(PlanRequest request) {
    int nodes = request.nodes();
    int ranks = request.ranks();
    int eligible = request.experts() / nodes * request.chosenNodes();
    double chosen = (double) request.chosenNodes() / nodes;
    double tokens = request.tokens();
    double toRank;
    double toNode;
    if (request.kind() == PlanKind.HT) {
      toRank = tokens * chosen * hit(eligible, request.experts() / ranks, request.topK());
      toNode = tokens * chosen * hit(eligible, request.experts() / nodes, request.topK());
    } else {
      toRank = tokens * request.topK() / ranks;
      toNode = tokens * request.topK() / nodes;
    }
    int onNode = request.ranksPerNode();
    // High throughput: the rows of other nodes pass the GPU with the index of their source first.
    double local = request.kind() == PlanKind.HT ? toRank * nodes : toRank;
    RankTraffic each =
        new RankTraffic(
            toRank * ranks,
            toRank * ranks,
            toNode * nodes,
            local * (onNode - 1),
            local * (onNode - 1),
            toNode * (nodes - 1),
            toNode * (nodes - 1),
            toNode * nodes);
    double[][] between = new double[nodes][nodes];
    for (double[] row : between) {
      Arrays.fill(row, toNode * onNode);
    }
    return new Traffic(Collections.nCopies(ranks, each), between);
  }

  /** Probability that at least one of {@code draws} distinct of {@code all} is in {@code some}. */
  static double hit(int all, int some, int draws) {
    double miss = 1;
    for (int i = 0; i < draws; i++) {
      miss *= Math.max(0, all - some - i) / (double) (all - i);
    }
    return 1 - miss;
  }

  /** Traffic of each rank. */
  public List<RankTraffic> ranks() {
    return ranks;
  }

  /** Rows from the ranks of a node to those of another, or to itself. */
  public double rowsBetween(int source, int target) {
    return betweenNodes[source][target];
  }

  /** Received rows of the busiest rank over their mean; 1 without rows. */
  public double imbalance() {
    double mean = ranks.stream().mapToDouble(RankTraffic::received).average().orElseThrow();
    double max = ranks.stream().mapToDouble(RankTraffic::received).max().orElseThrow();
    return max == 0 ? 1 : max / mean;
  }
}
