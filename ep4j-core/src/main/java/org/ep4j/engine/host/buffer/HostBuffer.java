package org.ep4j.engine.host.buffer;

import java.lang.foreign.ValueLayout;
import java.util.List;
import java.util.OptionalInt;
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
import org.ep4j.engine.Arguments;
import org.ep4j.engine.Operation;
import org.ep4j.engine.OperationLayout;
import org.ep4j.engine.SettledConfig;
import org.ep4j.engine.ThreadGuard;
import org.ep4j.engine.host.context.ExpertTable;
import org.ep4j.engine.host.context.HostContext;
import org.ep4j.engine.host.context.TrafficCounters;
import org.ep4j.engine.host.exec.OperationQueue;
import org.ep4j.engine.host.exec.WorkerTeam;
import org.ep4j.engine.host.internode.ScaleOut;
import org.ep4j.engine.host.layout.RegionLayout;
import org.ep4j.engine.host.lowlatency.LowLatency;
import org.ep4j.engine.host.lowlatency.LowLatencyCounters;
import org.ep4j.engine.host.lowlatency.LowLatencyEntry;
import org.ep4j.engine.world.Nodes;
import org.ep4j.engine.world.SurvivorAgreement;
import org.ep4j.error.ErrorCode;
import org.ep4j.error.IllegalUseException;
import org.ep4j.execution.Event;
import org.ep4j.execution.Execution;
import org.ep4j.group.Group;
import org.ep4j.memory.ClosingSteps;
import org.ep4j.observe.RankObservation;
import org.ep4j.observe.ReadmitEvent;
import org.ep4j.observe.RecoveryEvent;
import org.ep4j.observe.ResetEvent;
import org.ep4j.observe.WindowRecorder;
import org.ep4j.routing.Routing;
import org.ep4j.tensor.DType;
import org.ep4j.tensor.Tensor;
import org.jspecify.annotations.Nullable;

/**
 * A buffer of the host engine: owns the memory and the threads, and admits one thread at a time to
 * the operations.
 */
final class HostBuffer implements ExpertBuffer {
  private final HostContext context;
  private final BufferConfig config;

  /** What {@link #config()} returns; settled by {@link #connect}. */
  private BufferConfig settled;

  private final HostMemory memory;
  private final WorkerTeam team;
  private final OperationQueue queue;
  private final HighThroughput highThroughput;
  private final LowLatency lowLatency;
  private final Operation barrier = new Operation();

  private final ThreadGuard guard = new ThreadGuard();

  private final Connector connector;
  private final Recovery recovery;

  /** Ends the answers to observers of the job. */
  private Runnable unobserve = () -> {};

  HostBuffer(
      Group group, BufferConfig config, Nodes nodes, RegionLayout layout, HostMemory memory) {
    this.config = config;
    settled = config;
    this.memory = memory;
    String name = "ep4j-" + group.rank();
    team = new WorkerTeam(name, WorkerTeam.size(config.parallelism(), nodes, group.rank()));
    queue = new OperationQueue(name + "-async", config.timeout());
    context =
        new HostContext(
            group,
            config,
            nodes,
            memory.symmetric(),
            layout.highThroughputOffset,
            layout.lowLatencyOffset);
    ExpertTable experts = new ExpertTable(context.placement);
    highThroughput = new HighThroughput(context, layout, experts, memory, team, queue);
    lowLatency =
        new LowLatency(context, layout.lowLatency, experts, new LowLatencyCalls(), memory.views());
    connector = new Connector(context, layout, memory.region(), highThroughput, lowLatency);
    recovery = new Recovery(context, memory, lowLatency, connector);
  }

  /**
   * Connects the ranks; collective.
   *
   * @param agreement of a rank that rejoins the ranks with the buffer; otherwise null
   */
  void connect(@Nullable SurvivorAgreement agreement) {
    if (agreement == null) {
      connector.connect();
    } else {
      recovery.rejoin(agreement);
    }
    settled = SettledConfig.of(config, engine(), context.nodes, team.size());
    ScaleOut internode = context.scaleOut();
    if (internode != null) {
      settled =
          settled.toBuilder()
              .wire(internode.wireName())
              .wireOptions(internode.wireOptions())
              .build();
    }
    Runnable forget = context.group.observable(() -> observe().encode());
    WindowRecorder recorder = WindowRecorder.start(this::observe);
    unobserve = () -> ClosingSteps.run(forget, recorder::close);
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
    return EngineName.HOST;
  }

  @Override
  public DispatchLayout dispatchLayout(Routing routing, int experts) {
    guard.enter();
    try {
      return highThroughput.layout(routing, experts);
    } finally {
      guard.leave();
    }
  }

  @Override
  public Dispatch dispatch(Layout layout, Tokens tokens, Routing routing, DispatchOptions options) {
    guard.enter();
    try {
      return highThroughput.dispatcher.dispatch(layout, tokens, routing, options);
    } finally {
      guard.leave();
    }
  }

  @Override
  public Dispatch dispatch(
      Layout layout, Tokens tokens, DispatchHandle handle, Execution execution) {
    guard.enter();
    try {
      return highThroughput.dispatcher.dispatch(layout, tokens, handle, execution);
    } finally {
      guard.leave();
    }
  }

  @Override
  public Combine combine(Tensor y, DispatchHandle handle, CombineOptions options) {
    guard.enter();
    try {
      return highThroughput.combiner.combine(y, handle, options);
    } finally {
      guard.leave();
    }
  }

  @Override
  public LowLatencyDispatch lowLatencyDispatch(
      Layout layout, Tensor x, Routing routing, LowLatencyDispatchOptions options) {
    enterLowLatency(options.execution().isAsync());
    try {
      return lowLatency.dispatch(layout, x, routing, options);
    } finally {
      guard.leave();
    }
  }

  @Override
  public LowLatencyCombine lowLatencyCombine(
      Tensor y, Routing routing, LowLatencyHandle handle, LowLatencyCombineOptions options) {
    enterLowLatency(options.execution().isAsync());
    try {
      return lowLatency.combine(y, routing, handle, options);
    } finally {
      guard.leave();
    }
  }

  @Override
  public Tensor lowLatencyCombineBuffer(LowLatencyHandle handle) {
    enterLowLatency(false);
    try {
      return lowLatency.combineBuffer(handle);
    } finally {
      guard.leave();
    }
  }

  /** Begins a low-latency call; a synchronous call runs after all queued operations. */
  private void enterLowLatency(boolean async) {
    guard.enter();
    try {
      if (config.lowLatency().isEmpty()) {
        throw new IllegalUseException(
            ErrorCode.LOW_LATENCY_OFF,
            "the buffer has no low-latency operations: set BufferConfig.lowLatency");
      }
      if (!async) {
        queue.drain();
      }
      context.requireUsable();
    } catch (RuntimeException e) {
      guard.leave();
      throw e;
    }
  }

  /** Callbacks from low-latency operations into this buffer. */
  private final class LowLatencyCalls implements LowLatencyEntry {
    @Override
    public void enter() {
      enterLowLatency(false);
    }

    @Override
    public void leave() {
      guard.leave();
    }

    @Override
    public void requireUsable() {
      context.requireUsable();
    }

    @Override
    public void failed(String reason, RuntimeException cause) {
      context.breakBecause(reason, cause);
    }

    @Override
    public Event later(Runnable work) {
      return queue.submit(work);
    }

    @Override
    public void awaitPrevious(@Nullable Event previous, String operation) {
      queue.awaitPrevious(previous, operation);
    }
  }

  @Override
  public void updateMask(int rank, boolean masked) {
    guard.enter();
    try {
      queue.drain();
      context.requireUsable();
      lowLatency.updateMask(rank, masked);
    } finally {
      guard.leave();
    }
  }

  @Override
  public boolean isMasked(int rank) {
    guard.enter();
    try {
      Arguments.rank(rank, context.ranks);
      return context.masked[rank];
    } finally {
      guard.leave();
    }
  }

  @Override
  public void queryMask(Tensor mask) {
    guard.enter();
    try {
      Arguments.shape("mask", mask, DType.INT32, context.ranks);
      Arguments.writableOnHost("mask", mask);
      for (int r = 0; r < context.ranks; r++) {
        mask.segment().set(ValueLayout.JAVA_INT_UNALIGNED, 4L * r, context.masked[r] ? 1 : 0);
      }
    } finally {
      guard.leave();
    }
  }

  @Override
  public void cleanMask() {
    guard.enter();
    try {
      queue.drain();
      context.requireUsable();
      lowLatency.cleanMask();
    } finally {
      guard.leave();
    }
  }

  @Override
  public OptionalInt deviceOrdinal() {
    return OptionalInt.empty();
  }

  @Override
  public int parallelism() {
    guard.enter();
    try {
      return team.size();
    } finally {
      guard.leave();
    }
  }

  @Override
  public void setParallelism(int sms) {
    guard.enter();
    try {
      if (sms < 0) {
        throw Arguments.invalid(
            ErrorCode.BAD_SM_COUNT, "sms", sms, ">= 0", "pass 0 for the choice of the engine");
      }
      queue.drain();
      team.resize(WorkerTeam.size(sms, context.nodes, context.rank));
    } finally {
      guard.leave();
    }
  }

  @Override
  public void barrier() {
    guard.enter();
    try {
      queue.drain();
      context.requireUsable();
      try {
        context.enter(barrier.begin(OperationLayout.BARRIER), "barrier");
        context.finish("barrier", "exit");
      } catch (RuntimeException e) {
        throw context.settle(e);
      } finally {
        context.settle();
      }
    } finally {
      guard.leave();
    }
  }

  @Override
  public void reset() {
    guard.enter();
    try {
      queue.drain();
      highThroughput.outdateResults();
      recover(new ResetEvent(), recovery::reset);
    } finally {
      guard.leave();
    }
  }

  @Override
  public void readmit() {
    guard.enter();
    try {
      queue.drain();
      highThroughput.outdateResults();
      recover(new ReadmitEvent(), recovery::readmit);
    } finally {
      guard.leave();
    }
  }

  private void recover(RecoveryEvent event, Runnable step) {
    Boolean _ =
        event.record(
            context.rank,
            () -> context.epoch,
            () -> context.excluded,
            () ->
                context.group.together(
                    SurvivorAgreement.RESTARTING,
                    () -> {
                      step.run();
                      return true;
                    }));
  }

  @Override
  public BufferStatistics statistics() {
    guard.enter();
    try {
      queue.drain();
      TrafficCounters traffic = highThroughput.traffic;
      LowLatencyCounters counters = lowLatency.counters();
      ScaleOut internode = context.scaleOut();
      return new BufferStatistics(
          traffic.dispatches,
          traffic.combines,
          traffic.combinesInPlace,
          counters.dispatches,
          counters.combines,
          traffic.rowsSent + counters.rowsSent,
          traffic.rowsReceived + counters.rowsReceived,
          traffic.payloadBytesSent + counters.payloadBytesSent,
          context.sharedBytes(),
          memory.scratch().byteSize()
              + lowLatency.privateBytes()
              + (internode == null ? 0 : internode.privateBytes()),
          0,
          internode == null ? List.of() : internode.paths());
    } finally {
      guard.leave();
    }
  }

  @Override
  public RankObservation observe() {
    return context.log.snapshot();
  }

  @Override
  public void close() {
    guard.enterForClose();
    try {
      if (guard.isShut()) {
        return;
      }
      ClosingSteps.run(
          // First: queued operations still use the memory.
          queue::close,
          guard::shut,
          unobserve,
          context::publishClosed,
          team::close,
          connector::close,
          this::closeMemory);
    } finally {
      guard.leave();
    }
  }

  private void closeMemory() {
    // Throws while a thread is inside a view: then all memory with views stays mapped.
    memory.closeViews();
    ClosingSteps.run(lowLatency::close, memory::close);
  }

  @Override
  public String toString() {
    return "host buffer of " + context + (guard.isShut() ? ", closed" : "");
  }
}
