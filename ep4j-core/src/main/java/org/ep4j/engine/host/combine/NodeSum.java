package org.ep4j.engine.host.combine;

import org.ep4j.config.Layout;
import org.ep4j.engine.host.context.HostContext;
import org.ep4j.engine.host.context.HostHandle;
import org.ep4j.engine.host.context.HostHandle.RowTarget;
import org.ep4j.engine.host.context.InternodeRows;
import org.ep4j.engine.host.context.SumTerms;
import org.ep4j.engine.host.exec.WorkerTeam;
import org.ep4j.engine.host.kernel.RowKernels;
import org.ep4j.engine.host.layout.HighThroughputLayout.ScratchLayout;
import org.ep4j.memory.NativeMemory;
import org.jspecify.annotations.Nullable;

/**
 * The summing half of a combine between several nodes: with partial rounding the nodes' partial
 * sums in ascending order of nodes, without it all rows in ascending order of ranks, as {@link
 * RowPull} does in one node, or in ascending order of experts.
 */
final class NodeSum {
  /** A token has at most this many biases. */
  private static final int BIASES = 2;

  private final RowKernels kernels = RowKernels.get();
  private final HostContext context;
  private final SumTerms terms;
  private final InternodeRows internode;
  private final int maxTopK;

  /** Address of one row for each worker. */
  private final long partialRows;

  private final long partialBytes;
  private Worker[] workerStates = new Worker[0];

  private int topK;
  private boolean flat;

  /** Whether the rows of a rank are summed first. */
  private boolean grouped;

  private int @Nullable [] order;
  private int[] start = new int[1];
  private long[] routes = new long[0];
  private float[] routeWeights = new float[0];

  /** State of a worker. */
  private static final class Worker {
    final TokenRows list;
    final NodePartial partial;
    final long row;
    final float[] sum;
    final float[] part;

    Worker(NodeSum of, int number) {
      list = new TokenRows(of.maxTopK + BIASES);
      partial = new NodePartial(of.terms, of.maxTopK);
      row = of.partialRows + number * of.partialBytes;
      sum = new float[of.maxTopK];
      part = new float[of.maxTopK];
    }
  }

  NodeSum(HostContext context, SumTerms terms, InternodeRows internode, long partialRows) {
    this.context = context;
    this.terms = terms;
    this.internode = internode;
    this.partialRows = partialRows;
    maxTopK = context.config.topK();
    partialBytes = ScratchLayout.partialBytes(context.config.hidden());
  }

  /** Prepares sums along the routes of {@code handle}. */
  void prepare(HostHandle handle, WorkerTeam team) {
    topK = handle.topK;
    flat = handle.layout == Layout.FLAT;
    grouped = !flat && !terms.partialRounding && !terms.byExperts;
    order = terms.byExperts ? handle.order : null;
    start = handle.start;
    routes = handle.routes;
    routeWeights = handle.routeWeights;
    if (workerStates.length < team.size()) {
      workerStates = new Worker[team.size()];
      for (int i = 0; i < workerStates.length; i++) {
        workerStates[i] = new Worker(this, i);
      }
    }
  }

  /**
   * Sums the tokens {@code from} to {@code to}, whose rows have all arrived; workers call it
   * concurrently.
   */
  void tokens(int from, int to, int worker) {
    Worker mine = workerStates[worker];
    for (int t = from; t < to; t++) {
      mine.list.clear();
      addBias(mine.list, terms.bias0, t);
      addBias(mine.list, terms.bias1, t);
      if (terms.partialRounding) {
        addNodes(mine, t);
      } else {
        addRows(mine.list, t);
      }
      long out = terms.sums + t * terms.rowBytes;
      TokenRows list = mine.list;
      if (grouped) {
        list.sumGroups(kernels, terms.dtype, terms.applyWeights, false, out, terms.hidden);
      } else {
        boolean weighted = terms.byExperts && terms.applyWeights;
        list.sumChain(kernels, terms.dtype, weighted, out, terms.hidden);
      }
      if (terms.weightSums != 0) {
        sumWeights(mine, t);
      }
    }
  }

  private void addBias(TokenRows list, long bias, int token) {
    if (bias != 0) {
      list.addGroup(bias + token * terms.rowBytes);
    }
  }

  /** The route after the last one to the node of route {@code i}. */
  private int endOfNode(int i, int end) {
    int node = context.nodes.of(RowTarget.rank(routes[i]));
    int next = i + 1;
    while (next < end && context.nodes.of(RowTarget.rank(routes[next])) == node) {
      next++;
    }
    return next;
  }

  private void addNodes(Worker mine, int token) {
    int end = start[token + 1];
    for (int i = start[token]; i < end; ) {
      int next = endOfNode(i, end);
      int rank = RowTarget.rank(routes[i]);
      if (!context.isIntranode(rank)) {
        mine.list.addGroup(internode.row[i]);
      } else if (next == i + 1 && !terms.applyWeights) {
        // The sum of one row is that row; the final sum below normalises its zero or NaN.
        mine.list.addGroup(terms.rows[rank] + RowTarget.slot(routes[i]) * terms.rowBytes);
      } else {
        mine.partial.rows(routes, routeWeights, i, next, flat, mine.row);
        mine.list.addGroup(mine.row);
      }
      i = next;
    }
  }

  private void addRows(TokenRows list, int token) {
    boolean weighted = terms.applyWeights;
    int lastRank = -1;
    int end = start[token + 1];
    for (int at = start[token]; at < end; at++) {
      int i = order == null ? at : order[at];
      long route = routes[i];
      int rank = RowTarget.rank(route);
      long row =
          context.isIntranode(rank)
              ? terms.rows[rank] + RowTarget.slot(route) * terms.rowBytes
              : internode.row[i];
      float weight = weighted ? routeWeights[i] : 1;
      if (rank == lastRank) {
        list.add(row, weight);
      } else {
        list.addGroup(row, weight);
        lastRank = rank;
      }
    }
  }

  private void sumWeights(Worker mine, int token) {
    float[] sum = mine.sum;
    for (int k = 0; k < topK; k++) {
      sum[k] = 0f;
    }
    int end = start[token + 1];
    for (int i = start[token]; i < end; ) {
      boolean intranode = context.isIntranode(RowTarget.rank(routes[i]));
      int next = terms.partialRounding ? endOfNode(i, end) : i + 1;
      if (intranode) {
        mine.partial.weights(routes, i, next, flat, mine.part, topK);
        add(sum, mine.part);
      } else if (terms.partialRounding || flat) {
        for (int k = 0; k < topK; k++) {
          sum[k] += NativeMemory.getFloat(internode.weights[i] + 4L * k);
        }
      } else {
        sum[RowTarget.choice(routes[i])] += NativeMemory.getFloat(internode.weights[i]);
      }
      i = next;
    }
    for (int k = 0; k < topK; k++) {
      NativeMemory.putFloat(terms.weightSums + ((long) token * topK + k) * 4, sum[k]);
    }
  }

  private void add(float[] sum, float[] part) {
    for (int k = 0; k < topK; k++) {
      sum[k] += part[k];
    }
  }
}
