package org.ep4j.engine.host.buffer;

import static java.util.Objects.requireNonNull;

import org.ep4j.config.BufferConfig;
import org.ep4j.engine.Engines;
import org.ep4j.engine.Operation;
import org.ep4j.engine.OperationLayout;
import org.ep4j.engine.host.context.ExpertTable;
import org.ep4j.engine.host.context.HostContext;
import org.ep4j.engine.host.dispatch.RoutingScan;
import org.ep4j.engine.host.dispatch.SlotAssignment;
import org.ep4j.engine.host.layout.ControlPageLayout;
import org.ep4j.engine.host.layout.HighThroughputLayout.CombineLayout;
import org.ep4j.engine.host.layout.RegionLayout;
import org.ep4j.engine.world.AbortReport;
import org.ep4j.engine.world.ConfigAgreement;
import org.ep4j.engine.world.Nodes;
import org.ep4j.engine.world.SurvivorAgreement;
import org.ep4j.group.Group;
import org.ep4j.memory.NativeMemory;
import org.ep4j.tensor.DType;
import org.jspecify.annotations.Nullable;

/**
 * A rank that runs the protocol word by word instead of through a buffer, so that a test can stop
 * it between any two words. It has no tokens.
 */
final class ScriptedRank implements AutoCloseable {
  private final RegionLayout layout;
  private final HostMemory memory;
  private final HostContext context;
  private final Operation operation = new Operation();

  /** Takes part in the opening of a buffer. */
  ScriptedRank(Group group, BufferConfig config) {
    layout = new RegionLayout(config);
    Nodes[] agreed = new Nodes[1];
    memory =
        group.together(
            Engines.OPENING,
            () -> {
              // The problems of ranks that cannot take part: none.
              group.allGather(new byte[0], config.timeout());
              agreed[0] = ConfigAgreement.require(group, config);
              HostMemory allocated =
                  HostMemory.allocate(group, agreed[0], layout, config.timeout());
              // The problems of ranks that cannot make the rest of their buffer: none.
              group.allGather(new byte[0], config.timeout());
              return allocated;
            });
    Nodes nodes = agreed[0];
    context =
        new HostContext(
            group,
            config,
            nodes,
            memory.symmetric(),
            layout.highThroughputOffset,
            layout.lowLatencyOffset);
  }

  /** Enters a FLAT dispatch of BF16 rows without weights, and sends nothing. */
  void enterDispatch() {
    ExpertTable table = new ExpertTable(requireNonNull(context.config.placement()));
    RoutingScan nothing = new RoutingScan(table, context.nodes, context.config.topK());
    new SlotAssignment(context, layout.highThroughput, table)
        .publish(nothing, layout.highThroughput.capacity);
    operation
        .begin(OperationLayout.DISPATCH)
        .set(OperationLayout.EXPERT_ALIGNMENT, 1)
        .set(OperationLayout.TOP_K, context.config.topK())
        .set(OperationLayout.HIDDEN, context.config.hidden())
        .set(OperationLayout.EXPERTS, context.config.experts());
    context.enter(operation, "dispatch");
  }

  /** Ends the dispatch; returns the number by which a combine names it. */
  long finishDispatch() {
    context.finish("dispatch", "rows");
    return context.epoch;
  }

  /** Enters the combine of a dispatch; its rows are the current content of the combine region. */
  void enterCombine(long dispatch) {
    context.enter(combine(dispatch), "combine");
  }

  /** A whole combine at once, without waiting for the other ranks: reads its sums, then aborts. */
  void finishCombineAndAbort(long dispatch) {
    context.epoch++;
    combine(dispatch)
        .write(context.control(context.rank) + ControlPageLayout.DESCRIPTOR, context.epoch);
    context.breakBecause("tired of waiting", null);
    context.publish(ControlPageLayout.FINISHED);
  }

  private Operation combine(long dispatch) {
    long part = context.highThroughput(context.rank);
    NativeMemory.putLong(
        part + layout.highThroughput.combineWords + CombineLayout.ROWS,
        layout.highThroughputOffset + layout.highThroughput.combineRows);
    return operation
        .begin(OperationLayout.COMBINE)
        .set(OperationLayout.PARTIAL_ROUNDING, true)
        .set(OperationLayout.HIDDEN, context.config.hidden())
        .set(OperationLayout.HANDLE, dispatch);
  }

  /** Overwrites all rows that a rank has received, like a rank that was stopped while it sent. */
  void scribble(int rank) {
    long rows = context.highThroughput(rank) + layout.highThroughput.rows;
    long bytes = DType.BF16.bytes(layout.highThroughput.capacity * (long) context.config.hidden());
    NativeMemory.view(rows, bytes).fill((byte) 0x5a);
  }

  /** Joins a reset, and stops after its first message. */
  void beginReset() {
    agreement().close();
  }

  /**
   * Leaves its memory in a reset.
   *
   * @param ends whether it waits until all ranks have started again
   */
  void leaveInReset(boolean ends) {
    try (SurvivorAgreement agreement = agreement()) {
      memory.symmetric().leave(agreement.participants(), true, context.config.timeout());
      if (ends) {
        agreement.live().barrier(context.config.timeout());
      }
    }
  }

  private SurvivorAgreement agreement() {
    long[] words = new long[Recovery.AGREED_WORDS];
    return SurvivorAgreement.ofSurvivors(
        context.group, context.members, context.config.timeout(), words);
  }

  /** Report of a rank that has aborted or left; null if this rank has seen none. */
  @Nullable String abortReport(int of) {
    AbortReport report = context.report(of);
    return report == null ? null : report.state();
  }

  /** Enters a barrier. */
  void enterBarrier() {
    context.enter(operation.begin(OperationLayout.BARRIER), "barrier");
  }

  @Override
  public void close() {
    memory.close();
  }
}
