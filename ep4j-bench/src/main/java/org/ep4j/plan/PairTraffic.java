package org.ep4j.plan;

import java.util.Arrays;

/**
 * Rows of a dispatch by pair: from each rank to each node and to each rank, whole paths without
 * what lies between. The sums are those of {@link Traffic}. Immutable.
 *
 * <p>Counts are floats, exact up to 16 million; pairs of many ranks are the largest part of a
 * simulation's memory.
 */
public final class PairTraffic {
  private final float[][] toRanks;
  private final float[][] toNodes;
  private final double rankScale;
  private final double nodeScale;

  private PairTraffic(float[][] toRanks, float[][] toNodes, double rankScale, double nodeScale) {
    this.toRanks = toRanks;
    this.toNodes = toNodes;
    this.rankScale = rankScale;
    this.nodeScale = nodeScale;
  }

  /** The traffic of a request: exact means, or counted, as {@link Traffic#of}. */
  public static PairTraffic of(PlanRequest request) {
    return Traffic.isUniform(request) ? expected(request) : counted(request);
  }

  /** All pairs are alike: all sources share their numbers. */
  private static PairTraffic expected(PlanRequest request) {
    RankTraffic each = Traffic.expected(request).ranks().getFirst();
    float[] ranks = new float[request.ranks()];
    float[] nodes = new float[request.nodes()];
    Arrays.fill(ranks, 1);
    Arrays.fill(nodes, 1);
    float[][] toRanks = new float[ranks.length][];
    float[][] toNodes = new float[ranks.length][];
    Arrays.fill(toRanks, ranks);
    Arrays.fill(toNodes, nodes);
    return new PairTraffic(
        toRanks, toNodes, each.sent() / ranks.length, each.nodeRows() / nodes.length);
  }

  private static PairTraffic counted(PlanRequest request) {
    float[][] toRanks = new float[request.ranks()][request.ranks()];
    float[][] toNodes = new float[request.ranks()][request.nodes()];
    int onNode = request.ranksPerNode();
    boolean once = request.kind() == PlanKind.HT;
    RoutedTokens tokens = new RoutedTokens(request, RoutedTokens.SEED);
    tokens.forEachToken(
        (source, targets, chosen) -> {
          int previous = -1;
          for (int k = 0; k < chosen; k++) {
            int target = targets[k];
            if (!once || target != previous) {
              toRanks[source][target]++;
            }
            if (!once || previous < 0 || target / onNode != previous / onNode) {
              toNodes[source][target / onNode]++;
            }
            previous = target;
          }
        });
    return new PairTraffic(toRanks, toNodes, tokens.scale(), tokens.scale());
  }

  /** Rows of the tokens of {@code source} for rank {@code target}. */
  public double rows(int source, int target) {
    return toRanks[source][target] * rankScale;
  }

  /**
   * Rows of the tokens of {@code source} for a node: a row of several receivers on a node counts
   * once for high throughput.
   */
  public double nodeRows(int source, int node) {
    return toNodes[source][node] * nodeScale;
  }
}
