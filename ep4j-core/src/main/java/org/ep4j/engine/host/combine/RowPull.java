package org.ep4j.engine.host.combine;

import org.ep4j.config.Layout;
import org.ep4j.engine.host.context.HostHandle;
import org.ep4j.engine.host.context.HostHandle.RowTarget;
import org.ep4j.engine.host.context.SumTerms;
import org.ep4j.engine.host.exec.WorkerTeam;
import org.ep4j.engine.host.kernel.RowKernels;
import org.ep4j.engine.host.layout.HighThroughputLayout.ScratchLayout;
import org.ep4j.memory.NativeMemory;
import org.ep4j.memory.NonTemporalCopy;
import org.ep4j.tensor.DType;
import org.jspecify.annotations.Nullable;

/**
 * The summing half of a combine: reads each token's rows in the memory of their ranks and adds them
 * in ascending order of rank (and, EXPERT_MAJOR, of local expert inside a rank), or in that of
 * experts. Workers take consecutive tokens.
 */
final class RowPull implements WorkerTeam.Task {
  /** A token has at most this many biases. */
  private static final int BIASES = 2;

  private final RowKernels kernels = RowKernels.get();
  private final int maxTopK;

  private final SumTerms terms;

  /** Blocks for workers, see {@link ScratchLayout#blocks}. */
  private final long blocks;

  /** Number of tokens of the current run, and their routes. */
  private int tokens;

  private int topK;
  private boolean flat;

  /** Whether the rows of a rank are summed first. */
  private boolean grouped;

  private int @Nullable [] order;
  private boolean streaming;
  private int[] start = new int[1];
  private long[] routes = new long[0];
  private float[] weights = new float[0];
  private Worker[] workerStates = new Worker[0];

  /** How sums that exceed the cache are written. */
  private final SumStores stores = new SumStores();

  /**
   * A worker's state, and its sums with non-temporal stores, block by block: the worker sums a
   * block in the first-level cache and streams it from there, while the memory prefetches the
   * blocks needed about a microsecond later. Near the end of a row these are the first blocks of
   * the next token's rows.
   */
  private static final class Worker {
    /** Streaming stores fill whole lines, so blocks of the result begin with a line. */
    private static final int LINE = 64;

    final RowKernels kernels = RowKernels.get();
    TokenRows now;
    TokenRows next;
    final float[] weights;

    /** Address of {@link ScratchLayout#BLOCK} bytes. */
    private final long block;

    private final NonTemporalCopy stream;

    Worker(int topK, long block) {
      now = new TokenRows(topK + BIASES);
      next = new TokenRows(topK + BIASES);
      weights = new float[topK];
      this.block = block;
      stream = new NonTemporalCopy(topK + BIASES + 1);
    }

    /**
     * Sums {@code now} and advances its addresses.
     *
     * @param grouped whether groups are summed first
     * @param weighted whether rows are multiplied by their weights
     * @param next rows of the next sum
     * @param out address of the result, a multiple of {@link NonTemporalCopy#ALIGNMENT}
     * @param rowBytes bytes of a row
     */
    void stream(
        DType dtype,
        boolean grouped,
        boolean weighted,
        boolean partialRounding,
        TokenRows now,
        TokenRows next,
        long out,
        long rowBytes) {
      int elementBytes = (int) dtype.bytes(1);
      long rotation = Math.max(0, rowBytes - NonTemporalCopy.AHEAD);
      int fetches = fetch(now, 0, out);
      boolean rotated = false;
      for (long at = 0; at < rowBytes; ) {
        if (at >= rotation && !rotated) {
          rotated = true;
          fetches = fetch(next, at - rowBytes, out + at);
        }
        int bytes = (int) Math.min(ScratchLayout.BLOCK - (out + at & LINE - 1), rowBytes - at);
        int elements = bytes / elementBytes;
        if (grouped) {
          now.sumGroups(kernels, dtype, weighted, partialRounding, block, elements);
        } else {
          now.sumChain(kernels, dtype, weighted, block, elements);
        }
        for (int i = 0; i < now.count; i++) {
          now.rows[i] += bytes;
        }
        stream.copy(block, bytes, fetches, 1);
        at += bytes;
      }
    }

    /** Prefetches {@code rows} from now on, and writes to {@code out}. */
    private int fetch(TokenRows rows, long offset, long out) {
      for (int i = 0; i < rows.count; i++) {
        stream.places[i] = rows.rows[i] + offset;
      }
      stream.places[rows.count] = out;
      return rows.count;
    }
  }

  RowPull(SumTerms terms, int maxTopK, long blocks) {
    this.terms = terms;
    this.blocks = blocks;
    this.maxTopK = maxTopK;
  }

  /** Sums along the routes of {@code handle}. */
  void pull(HostHandle handle, WorkerTeam team) {
    tokens = handle.tokens;
    topK = handle.topK;
    flat = handle.layout == Layout.FLAT;
    grouped = !flat && !terms.byExperts;
    order = terms.byExperts ? handle.order : null;
    start = handle.start;
    routes = handle.routes;
    weights = handle.routeWeights;
    boolean choosing =
        terms.streamable
            && terms.sums % NonTemporalCopy.ALIGNMENT == 0
            && NonTemporalCopy.pays(handle.rowsSent * terms.rowBytes * terms.rows.length);
    streaming = choosing && stores.streams();
    if (workerStates.length < team.size()) {
      workerStates = new Worker[team.size()];
      for (int i = 0; i < workerStates.length; i++) {
        workerStates[i] = new Worker(maxTopK, blocks + (long) i * ScratchLayout.BLOCK);
      }
    }
    if (!choosing) {
      team.run(this);
      return;
    }
    // No rank waits for another one here, so the time is that of reading and writing.
    long begin = System.nanoTime();
    team.run(this);
    long bytes = ((long) handle.rowsSent + tokens) * terms.rowBytes;
    stores.took(System.nanoTime() - begin, bytes);
  }

  @Override
  public void run(int worker, int workers) {
    Worker mine = workerStates[worker];
    boolean around = streaming;
    DType dtype = terms.dtype;
    long rowBytes = terms.rowBytes;
    int hidden = terms.hidden;
    boolean weighted = terms.applyWeights;
    boolean partialRounding = terms.partialRounding;
    int from = (int) ((long) tokens * worker / workers);
    int to = (int) ((long) tokens * (worker + 1) / workers);
    gather(from, to, mine.now);
    for (int t = from; t < to; t++) {
      TokenRows now = mine.now;
      TokenRows next = mine.next;
      gather(t + 1, to, next);
      long sum = terms.sums + t * rowBytes;
      if (around) {
        mine.stream(dtype, grouped, weighted, partialRounding, now, next, sum, rowBytes);
      } else if (grouped) {
        now.sumGroups(kernels, dtype, weighted, partialRounding, sum, hidden);
      } else {
        now.sumChain(kernels, dtype, weighted, sum, hidden);
      }
      if (terms.weightSums != 0) {
        sumWeights(t, mine);
      }
      mine.now = next;
      mine.next = now;
    }
    if (around) {
      // Each worker fences its own stores before the caller learns that the sums are complete.
      NonTemporalCopy.fence();
    }
  }

  /** Collects the rows of {@code token}; none from {@code end} on. */
  private void gather(int token, int end, TokenRows list) {
    list.clear();
    if (token >= end) {
      return;
    }
    long rowBytes = terms.rowBytes;
    if (terms.bias0 != 0) {
      list.addGroup(terms.bias0 + token * rowBytes);
    }
    if (terms.bias1 != 0) {
      list.addGroup(terms.bias1 + token * rowBytes);
    }
    boolean weighted = terms.applyWeights;
    int lastRank = -1;
    int endOfRoutes = start[token + 1];
    for (int at = start[token]; at < endOfRoutes; at++) {
      int i = order == null ? at : order[at];
      long route = routes[i];
      int rank = RowTarget.rank(route);
      long row = terms.rows[rank] + RowTarget.slot(route) * rowBytes;
      float weight = weighted ? weights[i] : 1;
      if (rank == lastRank) {
        list.add(row, weight);
      } else {
        list.addGroup(row, weight);
        lastRank = rank;
      }
    }
  }

  private void sumWeights(int token, Worker mine) {
    float[] sum = mine.weights;
    for (int k = 0; k < topK; k++) {
      sum[k] = 0f;
    }
    int end = start[token + 1];
    for (int i = start[token]; i < end; i++) {
      long route = routes[i];
      long from = terms.weights[RowTarget.rank(route)];
      long slot = RowTarget.slot(route);
      if (flat) {
        for (int k = 0; k < topK; k++) {
          sum[k] += NativeMemory.getFloat(from + (slot * topK + k) * 4);
        }
      } else {
        sum[RowTarget.choice(route)] += NativeMemory.getFloat(from + slot * 4);
      }
    }
    long to = terms.weightSums + (long) token * topK * 4;
    for (int k = 0; k < topK; k++) {
      NativeMemory.putFloat(to + k * 4L, sum[k]);
    }
  }
}
