package org.ep4j.engine.host.combine;

import org.ep4j.engine.host.context.HostHandle.RowTarget;
import org.ep4j.engine.host.context.SumTerms;
import org.ep4j.engine.host.kernel.RowKernels;
import org.ep4j.memory.NativeMemory;

/**
 * Contribution of a node to the sum of a token: with partial rounding the sum of its ranks' rows,
 * rounded once more (EXPERT_MAJOR: of the ranks' rounded partial sums). For one worker.
 */
final class NodePartial {
  private final RowKernels kernels = RowKernels.get();
  private final SumTerms terms;
  private final TokenRows list;

  NodePartial(SumTerms terms, int maxTopK) {
    this.terms = terms;
    list = new TokenRows(maxTopK);
  }

  /**
   * Sums the rows of the routes {@code from} to {@code to} into the row at {@code out}.
   *
   * @param routeWeights weights of the routes; used if {@link SumTerms#applyWeights} is set
   */
  void rows(long[] routes, float[] routeWeights, int from, int to, boolean flat, long out) {
    boolean weighted = terms.applyWeights;
    list.clear();
    int lastRank = -1;
    for (int i = from; i < to; i++) {
      int rank = RowTarget.rank(routes[i]);
      long row = terms.rows[rank] + RowTarget.slot(routes[i]) * terms.rowBytes;
      float weight = weighted ? routeWeights[i] : 1;
      if (rank == lastRank) {
        list.add(row, weight);
      } else {
        list.addGroup(row, weight);
        lastRank = rank;
      }
    }
    if (flat) {
      kernels.reduceRows(terms.dtype, list.rows, list.count, out, terms.hidden);
    } else {
      list.sumGroups(kernels, terms.dtype, weighted, true, out, terms.hidden);
    }
  }

  /** Sums the weights of the routes {@code from} to {@code to} into {@code sum}. */
  void weights(long[] routes, int from, int to, boolean flat, float[] sum, int topK) {
    for (int k = 0; k < topK; k++) {
      sum[k] = 0f;
    }
    for (int i = from; i < to; i++) {
      long at = terms.weights[RowTarget.rank(routes[i])];
      long slot = RowTarget.slot(routes[i]);
      if (flat) {
        for (int k = 0; k < topK; k++) {
          sum[k] += NativeMemory.getFloat(at + (slot * topK + k) * 4);
        }
      } else {
        sum[RowTarget.choice(routes[i])] += NativeMemory.getFloat(at + slot * 4);
      }
    }
  }
}
