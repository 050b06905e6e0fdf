package org.ep4j.plan;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import org.ep4j.verify.RoutingGenerator;

/**
 * Counts the rows of drawn tokens, those of {@code ep4j bench}. Counts are scaled to the tokens of
 * the request: they estimate means.
 */
final class SampledTraffic {
  /** The seed of plans: the same request has the same traffic. */
  static final long SEED = 1;

  /** Tokens of all ranks together: seconds at most. */
  private static final int MAX_DRAWN = 1 << 21;

  /** Tokens of a rank that are worth drawing. */
  private static final int ENOUGH = 8192;

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

  private SampledTraffic(PlanRequest request) {
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

  static Traffic draw(PlanRequest request, long seed) {
    int drawn = Math.min(Math.max(request.tokens(), ENOUGH), MAX_DRAWN / request.ranks());
    RoutingGenerator generator =
        new RoutingGenerator(
            request.routing().kind(),
            seed,
            request.experts(),
            request.topK(),
            request.nodes(),
            request.chosenNodes());
    SampledTraffic counts = new SampledTraffic(request);
    long[] experts = new long[request.topK()];
    float[] weights = new float[request.topK()];
    int[] targets = new int[request.topK()];
    for (int rank = 0; rank < request.ranks(); rank++) {
      for (int token = 0; token < drawn; token++) {
        generator.draw(rank, token, experts, weights);
        for (int k = 0; k < targets.length; k++) {
          targets[k] = (int) experts[k] / request.expertsPerRank();
        }
        Arrays.sort(targets);
        if (request.kind() == PlanKind.HT) {
          counts.addToken(rank, targets);
        } else {
          counts.addChoices(rank, targets);
        }
      }
    }
    return counts.scaled((double) request.tokens() / drawn);
  }

  /**
   * A token of high throughput: a row crosses once to each node, to the GPU with the index of its
   * source, and from there once to each rank.
   *
   * @param targets sorted ranks, with repetitions
   */
  private void addToken(int source, int[] targets) {
    int onNode = request.ranksPerNode();
    int ownNode = source / onNode;
    int previousRank = -1;
    int previousNode = -1;
    for (int target : targets) {
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
  private void addChoices(int source, int[] targets) {
    int onNode = request.ranksPerNode();
    for (int target : targets) {
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
