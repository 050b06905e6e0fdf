package org.ep4j.plan.simulation;

import org.ep4j.plan.Operation;
import org.ep4j.plan.PairTraffic;
import org.ep4j.plan.PlanKind;
import org.ep4j.plan.PlanRequest;

/**
 * How the rows of each pair are cut into chunks of equal size. Rows are means and need not be whole
 * numbers.
 *
 * <p>High throughput moves chunks of 32 rows, low latency single rows. A plan with too many of them
 * gets chunks of twice the size, until there are few enough.
 */
final class Chunks {
  /** Parts of chunks, one for each receiving rank: 63 million events for both operations. */
  private static final long MAX_PARTS = 1 << 24;

  private final PairTraffic traffic;
  private final PlanRequest request;
  private final boolean forwarded;
  private double chunkRows;

  Chunks(PlanRequest request, PairTraffic traffic) {
    this(request, traffic, MAX_PARTS);
  }

  Chunks(PlanRequest request, PairTraffic traffic, long maxParts) {
    this.request = request;
    this.traffic = traffic;
    forwarded = request.kind() == PlanKind.HT && request.nodes() > 1;
    chunkRows = request.kind() == PlanKind.HT ? Operation.CHUNK_ROWS : 1;
    long parts = parts();
    while (parts > maxParts) {
      chunkRows *= 2;
      long fewer = parts();
      if (fewer == parts) {
        return;
      }
      parts = fewer;
    }
  }

  private long parts() {
    long parts = 0;
    int groups = forwarded ? request.nodes() : request.ranks();
    for (int source = 0; source < request.ranks(); source++) {
      for (int group = 0; group < groups; group++) {
        parts += count(source, group);
      }
    }
    return parts * (forwarded ? request.ranksPerNode() : 1);
  }

  /** Rows of a chunk at most. */
  double chunkRows() {
    return chunkRows;
  }

  /** Rows from a rank to a node if rows are forwarded there, else to a rank. */
  double pairRows(int source, int group) {
    return forwarded ? traffic.nodeRows(source, group) : traffic.rows(source, group);
  }

  /** Number of chunks of a pair. */
  int count(int source, int group) {
    return (int) Math.ceil(pairRows(source, group) / chunkRows);
  }

  /** Rows of each chunk from a rank to a node, for a rank of the node. */
  double partRows(int source, int target, int count) {
    return traffic.rows(source, target) / count;
  }

  /** Rows of each chunk from a rank to a node, for all ranks of the node together. */
  double nodeParts(int source, int node, int count) {
    double rows = 0;
    int first = node * request.ranksPerNode();
    for (int target = first; target < first + request.ranksPerNode(); target++) {
      rows += traffic.rows(source, target);
    }
    return rows / count;
  }
}
