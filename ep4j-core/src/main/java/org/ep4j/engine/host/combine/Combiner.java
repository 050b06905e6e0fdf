package org.ep4j.engine.host.combine;

import java.lang.foreign.MemorySegment;
import org.ep4j.Combine;
import org.ep4j.CombineOptions;
import org.ep4j.CombineOrder;
import org.ep4j.DispatchHandle;
import org.ep4j.engine.Arguments;
import org.ep4j.engine.DebugMode;
import org.ep4j.engine.Operation;
import org.ep4j.engine.OperationLayout;
import org.ep4j.engine.SegmentMemory;
import org.ep4j.engine.host.context.DeliveredRows;
import org.ep4j.engine.host.context.HostCallMemory;
import org.ep4j.engine.host.context.HostContext;
import org.ep4j.engine.host.context.HostHandle;
import org.ep4j.engine.host.context.Staging;
import org.ep4j.engine.host.context.SumTerms;
import org.ep4j.engine.host.context.TrafficCounters;
import org.ep4j.engine.host.exec.HostEnd;
import org.ep4j.engine.host.exec.OperationQueue;
import org.ep4j.engine.host.exec.WorkerTeam;
import org.ep4j.engine.host.internode.ScaleOut;
import org.ep4j.engine.host.layout.HighThroughputLayout;
import org.ep4j.engine.host.layout.HighThroughputLayout.CombineLayout;
import org.ep4j.engine.host.layout.HighThroughputLayout.ScratchLayout;
import org.ep4j.engine.host.layout.RegionLayout;
import org.ep4j.engine.throughput.HandlePool;
import org.ep4j.engine.throughput.HighThroughputChecks;
import org.ep4j.engine.throughput.LentResult;
import org.ep4j.engine.throughput.LentResult.CombineResult;
import org.ep4j.engine.throughput.Results;
import org.ep4j.engine.throughput.TensorView;
import org.ep4j.execution.Execution;
import org.ep4j.memory.NativeMemory;
import org.ep4j.tensor.DType;
import org.ep4j.tensor.Tensor;
import org.jspecify.annotations.Nullable;

/**
 * High-throughput combine, step by step: check the arguments, then on the calling thread or in the
 * queue make the rows readable for the peers, publish their address, enter, sum the rows of this
 * rank's tokens from the memory of all ranks, finish. Used by one thread at a time.
 *
 * <p>Peers read rows in place if they lie in the rank's region or, between threads of one process,
 * in any native memory; other rows are first copied into the combine region. Peers read the rows
 * until the operation has finished on this rank.
 */
public final class Combiner {
  private static final String COMBINE = "combine";

  /** Copies the head of a tensor into native memory with all workers. */
  private static final class RowCopy implements WorkerTeam.Task {
    private MemorySegment source = MemorySegment.NULL;
    private long target;
    private long bytes;

    /** Copies {@code length} bytes of {@code tensor} to {@code address}. */
    void copy(Tensor tensor, long address, long length, WorkerTeam team) {
      source = tensor.segment();
      target = address;
      bytes = length;
      if (source.isNative()) {
        team.run(this);
      } else {
        run(0, 1);
      }
      source = MemorySegment.NULL;
    }

    @Override
    public void run(int worker, int workers) {
      long from = bytes / workers * worker;
      long to = worker == workers - 1 ? bytes : bytes / workers * (worker + 1);
      if (source.isNative()) {
        // By address: a confined segment may belong to the calling thread.
        NativeMemory.copy(source.address() + from, target + from, to - from);
      } else {
        NativeMemory.copy(source, from, target + from, to - from);
      }
    }
  }

  private final HostContext context;
  private final HighThroughputLayout layout;
  private final ScratchLayout scratch;
  private final Staging staging;
  private final WorkerTeam team;
  private final OperationQueue queue;
  private final HandlePool<HostHandle> pool;
  private final SumTerms terms;
  private final RowPull pull;
  private final RowCopy copy = new RowCopy();
  private final Operation operation = new Operation();
  private final TrafficCounters traffic;
  private final SegmentMemory memory;
  private final TensorView sums = new TensorView();
  private final TensorView weightSums = new TensorView();

  private final LentResult.Lifetime lifetime = new LentResult.Lifetime(COMBINE);
  private final Results<CombineResult<HostEnd>> results =
      new Results<>(lifetime, () -> new CombineResult<>(lifetime, new HostEnd()));

  /** What the last dispatch delivered; null unless the buffer is in debug mode. */
  private final @Nullable DeliveredRows received;

  /** Debug mode: bytes of valid sums, and of valid sums of weights, in the buffer's memory. */
  private long validSums;

  private long validWeights;

  /** The internode part; null if there is one node. */
  private @Nullable CombineExchange exchange;

  /**
   * @param memory the private memory
   */
  public Combiner(
      HostContext context,
      RegionLayout region,
      Staging staging,
      WorkerTeam team,
      OperationQueue queue,
      HandlePool<HostHandle> pool,
      @Nullable DeliveredRows received,
      TrafficCounters traffic,
      SegmentMemory memory) {
    this.context = context;
    layout = region.highThroughput;
    scratch = region.scratch;
    this.staging = staging;
    this.team = team;
    this.queue = queue;
    this.pool = pool;
    this.received = received;
    this.traffic = traffic;
    this.memory = memory;
    terms = new SumTerms(context.ranks);
    pull = new RowPull(terms, context.config.topK(), staging.at(scratch.blocks));
  }

  /** Sets the connection to other nodes. */
  public void connect(ScaleOut connection) {
    long partials = staging.at(scratch.partials);
    exchange = new CombineExchange(context, connection, terms, partials, team);
  }

  /** Outdates all results: a reset discards the memory that they show. */
  public void outdateResults() {
    lifetime.next();
  }

  /** A combine along the routes of a dispatch. */
  public Combine combine(Tensor y, DispatchHandle given, CombineOptions options) {
    Execution execution = options.execution();
    Arguments.noStream(execution.stream());
    HostHandle handle = HostHandle.use(pool, given, context);
    boolean queued = false;
    try {
      HighThroughputChecks.combine(
          context.config, y, handle, options, handle.rows(), true, HostCallMemory.ANY);
      HighThroughputChecks.combineInPlace(context.config, y, staging.inRegion(y));
      if (execution.isAsync()) {
        CombineResult<HostEnd> result = next();
        result.end.queued(
            queue.submit(
                () -> {
                  try {
                    queue.awaitPrevious(execution.previousEvent(), COMBINE);
                    requireReceived(handle, y);
                    run(y, handle, options, result);
                  } finally {
                    handle.release();
                  }
                }));
        queued = true;
        return result;
      }
      queue.drain();
      queue.awaitPrevious(execution.previousEvent(), COMBINE);
      requireReceived(handle, y);
      CombineResult<HostEnd> result = next();
      run(y, handle, options, result);
      return result;
    } finally {
      if (!queued) {
        handle.release();
      }
    }
  }

  /** Debug mode: refuses received rows of another dispatch than that of {@code handle}. */
  private void requireReceived(HostHandle handle, Tensor y) {
    if (received != null) {
      received.requireOf(handle, y);
    }
  }

  private CombineResult<HostEnd> next() {
    CombineResult<HostEnd> result = results.next(false);
    result.end.none();
    return result;
  }

  private void run(
      Tensor y, HostHandle handle, CombineOptions options, CombineResult<HostEnd> result) {
    context.requireUsable();
    try {
      boolean rowsInPlace = publish(y, handle, options);
      operation
          .begin(OperationLayout.COMBINE)
          .set(OperationLayout.DTYPE, y.dtype().ordinal())
          .set(OperationLayout.WEIGHTS, options.topkWeights() != null)
          .set(OperationLayout.PARTIAL_ROUNDING, options.partialRounding())
          .set(OperationLayout.APPLY_WEIGHTS, options.applyWeights())
          .set(OperationLayout.ORDER, options.order().ordinal())
          .set(OperationLayout.HANDLE, handle.epoch)
          .set(OperationLayout.HIDDEN, y.size(1));
      context.enter(operation, COMBINE);
      locate();
      sum(y, handle, options);
      context.finish(COMBINE, "sums");
      traffic.combined(rowsInPlace);
    } catch (InternalError e) {
      throw context.settle(HostContext.outOfPages(COMBINE, e));
    } catch (RuntimeException e) {
      throw context.settle(e);
    } finally {
      context.settle();
    }
    Tensor out = options.out();
    if (out != null && !inPlace(out)) {
      NativeMemory.copy(terms.sums, out.segment(), 0, out.byteSize());
    }
    if (context.debug) {
      outdateSums(handle, out == null ? handle.tokens * terms.rowBytes : 0);
    }
    result.deliver(
        out != null
            ? out
            : sums.of(memory, staging.at(scratch.sums), y.dtype(), handle.tokens, y.size(1)),
        options.topkWeights() == null
            ? null
            : weightSums.of(
                memory, staging.at(scratch.weightSums), DType.FP32, handle.tokens, handle.topK));
  }

  /**
   * Debug mode: overwrites the sums of earlier combines that this one left in the buffer's memory.
   *
   * @param valid bytes of the sums of this combine in the buffer's memory
   */
  private void outdateSums(HostHandle handle, long valid) {
    long written = Math.max(validSums, handle.tokens * terms.rowBytes);
    NativeMemory.fill(staging.at(scratch.sums) + valid, written - valid, DebugMode.POISON);
    validSums = valid;
    long weights = terms.weightSums == 0 ? 0 : (long) handle.tokens * handle.topK * Float.BYTES;
    long old = Math.max(validWeights, weights);
    NativeMemory.fill(staging.at(scratch.weightSums) + weights, old - weights, DebugMode.POISON);
    validWeights = weights;
  }

  /**
   * Makes rows and weights readable for the peers and writes their addresses. Returns whether the
   * rows lay where peers can read them.
   */
  private boolean publish(Tensor y, HostHandle handle, CombineOptions options) {
    long part = context.highThroughput(context.rank);
    long region = context.memory.address(context.rank);
    long words = part + layout.combineWords;
    long rowBytes = y.dtype().bytes(y.size(1));
    long rows = reachable(y, part + layout.combineRows, handle.rows() * rowBytes);
    NativeMemory.putLong(words + CombineLayout.ROWS, rows - region);
    Tensor weights = options.topkWeights();
    if (weights != null) {
      long bytes = handle.rows() * (weights.dimensions() == 2 ? 4L * handle.topK : 4L);
      long place = reachable(weights, part + layout.combineWeights, bytes);
      NativeMemory.putLong(words + CombineLayout.WEIGHTS, place - region);
    }
    return rows == y.address();
  }

  /**
   * Address at which the peers read the first {@code bytes} bytes of {@code tensor}: in place, or a
   * copy.
   */
  private long reachable(Tensor tensor, long copyTo, long bytes) {
    if (staging.inRegion(tensor) || (tensor.nativeHost() && context.memory.sameAddressSpace())) {
      return tensor.address();
    }
    copy.copy(tensor, copyTo, bytes, team);
    return copyTo;
  }

  /** Reads the row addresses of all ranks. */
  private void locate() {
    for (int r = 0; r < context.ranks; r++) {
      if (!context.excluded[r] && context.isIntranode(r)) {
        long region = context.memory.address(r);
        long words = context.highThroughput(r) + layout.combineWords;
        terms.rows[r] = region + NativeMemory.getLong(words + CombineLayout.ROWS);
        terms.weights[r] = region + NativeMemory.getLong(words + CombineLayout.WEIGHTS);
      }
    }
  }

  private void sum(Tensor y, HostHandle handle, CombineOptions options) {
    Tensor out = options.out();
    terms.dtype = y.dtype();
    terms.hidden = (int) y.size(1);
    terms.rowBytes = y.dtype().bytes(y.size(1));
    terms.byExperts = options.order() == CombineOrder.EXPERT;
    terms.partialRounding = options.partialRounding() && !terms.byExperts;
    terms.applyWeights = options.applyWeights();
    terms.bias0 = bias(options.bias0(), out, scratch.bias0);
    terms.bias1 = bias(options.bias1(), out, scratch.bias1);
    terms.sums = out != null && inPlace(out) ? out.address() : staging.at(scratch.sums);
    terms.streamable = out == null || !out.segment().isMapped();
    terms.weightSums = options.topkWeights() != null ? staging.at(scratch.weightSums) : 0;
    if (exchange == null) {
      pull.pull(handle, team);
    } else {
      exchange.run(handle, COMBINE);
    }
  }

  /** Whether this rank may write sums to {@code out} while peers still read its rows. */
  private boolean inPlace(Tensor out) {
    return out.nativeHost() && !staging.inRegion(out);
  }

  /** Address of a bias: of a copy if the bias is not in native memory or overlaps the result. */
  private long bias(@Nullable Tensor bias, @Nullable Tensor out, long offset) {
    if (bias == null) {
      return 0;
    }
    if (!bias.nativeHost() || (out != null && Arguments.overlap(bias, out))) {
      return staging.copied(bias, offset);
    }
    return bias.address();
  }
}
