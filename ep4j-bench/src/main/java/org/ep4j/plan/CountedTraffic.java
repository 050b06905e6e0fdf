package org.ep4j.plan;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;

/**
 * Counts the rows of drawn or recorded tokens. Counts are scaled to the tokens of the request:
 * those of drawn tokens estimate means.
 */
final class CountedTraffic {
  private final PlanRequest request;
  private final double[] sent;
  private final double[] received;
  private final double[] nodeRows;
  private final double[] nvlinkOut;
  private final double[] nvlinkIn;
  private final double[] nicOut;
  private final double[] nicIn;
  private final double[] nodeRowsIn;
  private final double[][] between;

  private CountedTraffic(PlanRequest request) {
    this.request = request;
    int ranks = request.ranks();
    sent = new double[ranks];
    received = new double[ranks];
    nodeRows = new double[ranks];
    nvlinkOut = new double[ranks];
    nvlinkIn = new double[ranks];
    nicOut = new double[ranks];
    nicIn = new double[ranks];
    nodeRowsIn = new double[ranks];
    between = new double[request.nodes()][request.nodes()];
  }

  static Traffic of(PlanRequest request, long seed) {
    CountedTraffic counts = new CountedTraffic(request);
    RoutedTokens tokens = new RoutedTokens(request, seed);
    tokens.forEachToken(counts::add);
    return counts.scaled(tokens.scale());
  }

  /**
   * @param targets ranks, sorted, with repetitions
   * @param chosen number of targets
   */
  private void add(int source, int[] targets, int chosen) {
    if (request.kind() == PlanKind.HT) {
      addToken(source, targets, chosen);
    } else {
      addChoices(source, targets, chosen);
    }
  }

  /**
   * A token of high throughput: a row crosses once to each node, to the GPU with the index of its
   * source, and from there once to each rank.
   */
  private void addToken(int source, int[] targets, int chosen) {
    int onNode = request.ranksPerNode();
    int ownNode = source / onNode;
    int previousRank = -1;
    int previousNode = -1;
    for (int k = 0; k < chosen; k++) {
      int target = targets[k];
      if (target == previousRank) {
        continue;
      }
      previousRank = target;
      int node = target / onNode;
      int entry = node * onNode + source % onNode;
      if (node != previousNode) {
        previousNode = node;
        nodeRows[source]++;
        nodeRowsIn[entry]++;
        between[ownNode][node]++;
        if (node != ownNode) {
          nicOut[source]++;
          nicIn[entry]++;
        }
      }
      sent[source]++;
      received[target]++;
      if (target != entry) {
        nvlinkOut[entry]++;
        nvlinkIn[target]++;
      }
    }
  }

  /** A token of low latency: a row for each choice, straight to its rank. */
  private void addChoices(int source, int[] targets, int chosen) {
    int onNode = request.ranksPerNode();
    for (int k = 0; k < chosen; k++) {
      int target = targets[k];
      sent[source]++;
      received[target]++;
      nodeRows[source]++;
      nodeRowsIn[target]++;
      between[source / onNode][target / onNode]++;
      if (target / onNode != source / onNode) {
        nicOut[source]++;
        nicIn[target]++;
      } else if (target != source) {
        nvlinkOut[source]++;
        nvlinkIn[target]++;
      }
    }
  }

  private Traffic scaled(double factor) {
    List<RankTraffic> ranks = new ArrayList<>();
    for (int rank = 0; rank < sent.length; rank++) {
      ranks.add(
          new RankTraffic(
              sent[rank] * factor,
              received[rank] * factor,
              nodeRows[rank] * factor,
              nvlinkOut[rank] * factor,
              nvlinkIn[rank] * factor,
              nicOut[rank] * factor,
              nicIn[rank] * factor,
              nodeRowsIn[rank] * factor));
    }
    for (double[] row : between) {
      Arrays.setAll(row, node -> row[node] * factor);
    }
    return new Traffic(ranks, between);
  }
}
