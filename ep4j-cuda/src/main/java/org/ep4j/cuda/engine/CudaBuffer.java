package org.ep4j.cuda.engine;

import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.time.Duration;
import java.util.List;
import java.util.OptionalInt;
import java.util.function.Supplier;
import org.ep4j.BufferSizes;
import org.ep4j.BufferStatistics;
import org.ep4j.Combine;
import org.ep4j.CombineOptions;
import org.ep4j.Dispatch;
import org.ep4j.DispatchHandle;
import org.ep4j.DispatchLayout;
import org.ep4j.DispatchOptions;
import org.ep4j.ExpertBuffer;
import org.ep4j.LowLatencyCombine;
import org.ep4j.LowLatencyCombineOptions;
import org.ep4j.LowLatencyDispatch;
import org.ep4j.LowLatencyDispatchOptions;
import org.ep4j.LowLatencyHandle;
import org.ep4j.Tokens;
import org.ep4j.config.BufferConfig;
import org.ep4j.config.EngineName;
import org.ep4j.config.Layout;
import org.ep4j.cuda.backend.BoundedCall;
import org.ep4j.cuda.driver.calls.CudaException;
import org.ep4j.cuda.engine.context.CudaContext;
import org.ep4j.cuda.engine.lowlatency.LowLatency;
import org.ep4j.cuda.engine.throughput.CudaDispatchLayout;
import org.ep4j.cuda.engine.throughput.CudaHandles;
import org.ep4j.cuda.engine.throughput.HighThroughput;
import org.ep4j.cuda.internode.InternodeConnection;
import org.ep4j.cuda.struct.Control;
import org.ep4j.engine.Arguments;
import org.ep4j.engine.Interrupts;
import org.ep4j.engine.Operation;
import org.ep4j.engine.OperationLayout;
import org.ep4j.engine.SettledConfig;
import org.ep4j.engine.ThreadGuard;
import org.ep4j.engine.throughput.HighThroughputChecks;
import org.ep4j.engine.world.SurvivorAgreement;
import org.ep4j.error.Ep4jException;
import org.ep4j.error.ErrorCode;
import org.ep4j.error.IllegalUseException;
import org.ep4j.execution.Execution;
import org.ep4j.group.Group;
import org.ep4j.group.GroupException;
import org.ep4j.group.GroupTimeoutException;
import org.ep4j.group.PeerLostException;
import org.ep4j.observe.RankObservation;
import org.ep4j.observe.ReadmitEvent;
import org.ep4j.observe.RecoveryEvent;
import org.ep4j.observe.ResetEvent;
import org.ep4j.routing.Routing;
import org.ep4j.tensor.DType;
import org.ep4j.tensor.Tensor;
import org.jspecify.annotations.Nullable;

/**
 * A buffer of the CUDA engine: admits one thread at a time to the operations and makes the device
 * current for it.
 */
final class CudaBuffer implements ExpertBuffer {
  /** How long close waits for ranks that may still access this rank's memory. */
  private static final Duration PARTING = Duration.ofSeconds(5);

  /** Purpose of the collective that admits masked ranks between nodes. */
  private static final String ADMITTING = "admitting masked ranks of a buffer";

  /** Rows sent, rows received and bytes sent. */
  private static final int TRAFFIC_WORDS = 3;

  private final CudaContext context;
  private final BufferConfig settled;
  private final CudaHandles handles;
  private final CudaDispatchLayout counting;
  private final CudaBufferOpening owned;
  private final HighThroughput highThroughput;
  private final @Nullable LowLatency lowLatency;
  private final Recovery recovery;
  private final ThreadGuard threads = new ThreadGuard();
  private final CudaThreadGuard guard;
  private final Operation barrier = new Operation().begin(OperationLayout.BARRIER);

  /** The memory that this rank had when the buffer opened. */
  private final BufferSizes opened;

  /** Bytes of it that are part of the operations' memory, which grows. */
  private final long stagedAtOpen;

  /** The ranks that take part in operations: the buffer's group until a reset. */
  private Group live;

  CudaBuffer(
      CudaContext context,
      CudaHandles handles,
      CudaDispatchLayout counting,
      LowLatency.@Nullable Resources latency,
      CudaBufferOpening owned) {
    this.context = context;
    settled = SettledConfig.of(context.config, EngineName.CUDA, context.nodes, context.sms());
    this.handles = handles;
    this.counting = counting;
    this.owned = owned;
    guard = new CudaThreadGuard(threads, context);
    highThroughput = new HighThroughput(context, handles);
    lowLatency = latency == null ? null : new LowLatency(context, latency, guard);
    recovery = new Recovery(context, lowLatency, latency == null ? null : latency.part());
    live = context.group;
    opened =
        CudaSizes.of(
            context.config,
            context.nodes,
            context.rank,
            context.device.properties().multiprocessors());
    stagedAtOpen = context.staging.bytes();
  }

  private void enter() {
    guard.enter();
  }

  private void leave() {
    guard.leave();
  }

  @Override
  public int rank() {
    return context.rank;
  }

  @Override
  public int worldSize() {
    return context.ranks;
  }

  @Override
  public BufferConfig config() {
    return settled;
  }

  @Override
  public String engine() {
    return EngineName.CUDA;
  }

  @Override
  public OptionalInt deviceOrdinal() {
    return OptionalInt.of(context.device.ordinal());
  }

  @Override
  public DispatchLayout dispatchLayout(Routing routing, int experts) {
    enter();
    try {
      HighThroughputChecks.routing(context.config, routing, context.staging.accepted(false));
      int all = context.experts.number(experts);
      context.completion.requireUsable();
      context.order(context.stream, false, null);
      counting.count(routing, all);
      return counting;
    } finally {
      leave();
    }
  }

  @Override
  public Dispatch dispatch(Layout layout, Tokens tokens, Routing routing, DispatchOptions options) {
    enter();
    try {
      return highThroughput.dispatch(layout, tokens, routing, options);
    } finally {
      leave();
    }
  }

  @Override
  public Dispatch dispatch(
      Layout layout, Tokens tokens, DispatchHandle handle, Execution execution) {
    enter();
    try {
      return highThroughput.dispatch(layout, tokens, handle, execution);
    } finally {
      leave();
    }
  }

  @Override
  public Combine combine(Tensor y, DispatchHandle handle, CombineOptions options) {
    enter();
    try {
      return highThroughput.combine(y, handle, options);
    } finally {
      leave();
    }
  }

  private LowLatency lowLatency() {
    LowLatency operations = lowLatency;
    if (operations == null) {
      throw new IllegalUseException(
          ErrorCode.LOW_LATENCY_OFF,
          "the buffer was opened without low-latency operations: set BufferConfig.lowLatency");
    }
    return operations;
  }

  @Override
  public LowLatencyDispatch lowLatencyDispatch(
      Layout layout, Tensor x, Routing routing, LowLatencyDispatchOptions options) {
    enter();
    try {
      return lowLatency().dispatch(layout, x, routing, options);
    } finally {
      leave();
    }
  }

  @Override
  public LowLatencyCombine lowLatencyCombine(
      Tensor y, Routing routing, LowLatencyHandle handle, LowLatencyCombineOptions options) {
    enter();
    try {
      return lowLatency().combine(y, routing, handle, options);
    } finally {
      leave();
    }
  }

  @Override
  public Tensor lowLatencyCombineBuffer(LowLatencyHandle handle) {
    enter();
    try {
      return lowLatency().combineBuffer(handle);
    } finally {
      leave();
    }
  }

  @Override
  public void updateMask(int rank, boolean masked) {
    enter();
    try {
      lowLatency().updateMask(rank, masked);
    } finally {
      leave();
    }
  }

  @Override
  public boolean isMasked(int rank) {
    enter();
    try {
      Arguments.rank(rank, context.ranks);
      return masked(rank);
    } finally {
      leave();
    }
  }

  @Override
  public void queryMask(Tensor mask) {
    enter();
    try {
      Arguments.shape("mask", mask, DType.INT32, context.ranks);
      context.staging.accepted(false).writable("mask", mask);
      int[] masks = new int[context.ranks];
      for (int r = 0; r < context.ranks; r++) {
        masks[r] = masked(r) ? 1 : 0;
      }
      mask.copyFrom(MemorySegment.ofArray(masks));
    } finally {
      leave();
    }
  }

  private boolean masked(int rank) {
    return lowLatency == null ? context.completion.isExcluded(rank) : lowLatency.isMasked(rank);
  }

  @Override
  public void cleanMask() {
    enter();
    try {
      // Without low-latency operations only dead ranks are masked, permanently.
      InternodeConnection internode = context.internode;
      if (lowLatency != null && internode == null) {
        lowLatency.cleanMask();
      } else if (lowLatency != null && internode != null) {
        cleanMask(internode, lowLatency);
      }
    } finally {
      leave();
    }
  }

  private void cleanMask(InternodeConnection internode, LowLatency operations) {
    operations.requireMasks();
    Boolean _ =
        context.group.together(
            ADMITTING,
            () -> {
              recovery.admitMasked(internode, operations);
              return true;
            });
  }

  @Override
  public int parallelism() {
    enter();
    try {
      return context.sms();
    } finally {
      leave();
    }
  }

  @Override
  public void setParallelism(int sms) {
    enter();
    try {
      context.setSms(sms);
    } finally {
      leave();
    }
  }

  @Override
  public void barrier() {
    enter();
    try {
      context.completion.requireUsable();
      context.completion.awaitAll();
      context.completion.check("barrier");
      context.completion.requireNoneAborted();
      context.calls.add(barrier);
      long start = System.nanoTime();
      try {
        live.barrier(context.config.timeout());
      } catch (PeerLostException | GroupTimeoutException e) {
        throw context.completion.missing(e, (System.nanoTime() - start) / 1_000_000);
      }
    } finally {
      leave();
    }
  }

  @Override
  public void reset() {
    enter();
    try {
      highThroughput.outdateResults();
      recover(new ResetEvent(), recovery::reset);
    } finally {
      leave();
    }
  }

  @Override
  public void readmit() {
    enter();
    try {
      highThroughput.outdateResults();
      recover(new ReadmitEvent(), recovery::readmit);
    } finally {
      leave();
    }
  }

  private void recover(RecoveryEvent event, Supplier<Group> step) {
    adoptSurvivors(
        event.record(
            context.rank,
            context::resumedAfter,
            context.completion::excluded,
            () -> context.group.together(SurvivorAgreement.RESTARTING, step)));
  }

  /** The last step of opening a returning rank. */
  void rejoin(SurvivorAgreement agreement) {
    adoptSurvivors(recovery.rejoin(agreement));
  }

  private void adoptSurvivors(Group survivors) {
    closeLive();
    live = survivors;
  }

  private void closeLive() {
    if (live != context.group) {
      live.close();
    }
  }

  @Override
  public BufferStatistics statistics() {
    enter();
    try {
      context.completion.awaitAll();
      MemorySegment words = MemorySegment.ofArray(new long[TRAFFIC_WORDS]);
      context.region.copyTo(Control.WORDS.rowsSent.offset(), words);
      return new BufferStatistics(
          highThroughput.dispatches,
          highThroughput.combines,
          highThroughput.combinesInPlace(),
          lowLatency == null ? 0 : lowLatency.dispatches,
          lowLatency == null ? 0 : lowLatency.combines,
          words.getAtIndex(ValueLayout.JAVA_LONG, 0),
          words.getAtIndex(ValueLayout.JAVA_LONG, 1),
          words.getAtIndex(ValueLayout.JAVA_LONG, 2),
          opened.symmetricBytes(),
          privateBytes(),
          BoundedCall.abandoned(),
          context.internode == null ? List.of() : context.internode.paths());
    } finally {
      leave();
    }
  }

  @Override
  public RankObservation observe() {
    return context.observations.snapshot();
  }

  private long privateBytes() {
    return opened.privateBytes()
        + context.staging.bytes()
        - stagedAtOpen
        + handles.bytes()
        + (lowLatency == null ? 0 : lowLatency.grownBytes());
  }

  /**
   * Never hangs: waits for the last operation up to its deadline, then briefly for the other ranks.
   * An interrupt from before ends none of these waits: kernels may still write memory that is freed
   * behind them. Freeing waits for the GPU without a limit; if the GPU has not ended the last
   * operation by then, driver resources stay allocated until the process ends, and an exception
   * reports this.
   */
  @Override
  public void close() {
    threads.enterForClose();
    try {
      if (threads.isShut()) {
        return;
      }
      threads.shut();
      Interrupts.closeUninterruptibly(this::closeHere);
    } finally {
      leave();
    }
  }

  private void closeHere() {
    context.device.makeCurrent();
    if (!context.completion.endsInTime()) {
      abandon();
    }
    context.publishClosed();
    try {
      // A peer's kernel may still write words here.
      live.barrier(PARTING);
    } catch (GroupException | IllegalStateException e) {
      // Dead or missing ranks write nothing.
    }
    try {
      closeLive();
      context.forgetCallersStream();
    } finally {
      owned.close();
    }
  }

  /** Returns only if the driver refuses all work: freeing then does not wait. */
  private void abandon() {
    // If the work starts later, its kernels abort soon.
    context.words.abort();
    try {
      context.stream.query();
    } catch (CudaException e) {
      return;
    }
    context.completion.needsReset(
        "its buffer closes, although the GPU has not ended the last operation");
    closeLive();
    context.forgetCallersStream();
    throw new Ep4jException(
        ErrorCode.BUFFER_LEFT_OPEN,
        "closing the buffer of "
            + context
            + ": the GPU has not ended the last operation, so "
            + ((opened.symmetricBytes() + privateBytes()) >> 20)
            + " MiB of memory, its stream and its kernels stay allocated until this process"
            + " ends: end the process, or end the work that its stream waits for before closing");
  }

  @Override
  public String toString() {
    return "CUDA buffer of " + context + (threads.isShut() ? ", closed" : "");
  }
}
