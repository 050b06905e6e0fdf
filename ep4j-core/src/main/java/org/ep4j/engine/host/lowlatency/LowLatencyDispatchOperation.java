package org.ep4j.engine.host.lowlatency;

import static java.util.Objects.requireNonNull;

import org.ep4j.LowLatencyDispatch;
import org.ep4j.LowLatencyDispatchOptions;
import org.ep4j.config.Layout;
import org.ep4j.engine.host.context.CallerTensors;
import org.ep4j.engine.lowlatency.Flight;
import org.ep4j.engine.lowlatency.LowLatencyChecks;
import org.ep4j.engine.lowlatency.LowLatencyFormat;
import org.ep4j.engine.lowlatency.LowLatencyResult;
import org.ep4j.engine.lowlatency.LowLatencyViews;
import org.ep4j.routing.Routing;
import org.ep4j.tensor.RowFormat;
import org.ep4j.tensor.ScaleLayout;
import org.ep4j.tensor.Tensor;
import org.jspecify.annotations.Nullable;

/** A low-latency dispatch: its arguments, and what its result shows. */
final class LowLatencyDispatchOperation extends LowLatencyOperation
    implements LowLatencyResult.Dispatched {
  private final LowLatency owner;
  private final LowLatencyMemory memory;
  private final LowLatencyResult byExperts = LowLatencyResult.of(Layout.EXPERT_MAJOR, this);
  private final LowLatencyResult byRanks = LowLatencyResult.of(Layout.RANK_MAJOR, this);

  LowLatencyRecord record;
  LowLatencyFormat format;

  /** The routing, and the factor of NVFP4 rows, until they are read. */
  private @Nullable Routing routing;

  private @Nullable Tensor factor;
  float globalScale;
  ScaleLayout scaleLayout = ScaleLayout.ROW_MAJOR;
  @Nullable Tensor cumulativeStats;

  /** The caller's rows; null once no rank reads them. */
  @Nullable Tensor x;

  /** Address of the caller's rows if this rank reads its own rows there, else 0. */
  long ownRows;

  LowLatencyDispatchOperation(
      LowLatency owner, LowLatencyMemory memory, LowLatencyRecord record, LowLatencyFormat format) {
    super(owner, owner.flights().dispatches);
    this.owner = owner;
    this.memory = memory;
    this.record = record;
    this.format = format;
  }

  void prepare(
      Tensor rows,
      Routing choices,
      LowLatencyRecord wanted,
      LowLatencyFormat rowFormat,
      LowLatencyDispatchOptions options) {
    record = wanted;
    record.hidden = rowFormat.hidden();
    format = rowFormat;
    routing = choices;
    factor = options.globalScale();
    scaleLayout = options.scaleLayout();
    cumulativeStats = options.cumulativeStats();
    x = rows;
    boolean inPlace =
        format.format() == RowFormat.BF16 && rows.nativeHost() && !options.returnHook();
    ownRows = inPlace ? rows.address() : 0;
  }

  /** The outputs of this dispatch. */
  LowLatencyMemory.Half out() {
    return memory.half(flight.half());
  }

  LowLatencyDispatch result() {
    return record.byRanks ? byRanks : byExperts;
  }

  @Override
  void read() {
    owner.routing(readsLate()).read(requireNonNull(routing), record);
    globalScale = factor == null ? 1 : CallerTensors.scalar(factor);
    LowLatencyChecks.factor(globalScale);
    routing = null;
    factor = null;
  }

  @Override
  void send() {
    owner.dispatchSender().send(this);
  }

  @Override
  boolean awaits(int source) {
    return true;
  }

  @Override
  void complete() {
    owner.dispatchReceiver().receive(this);
    owner.received(this);
    owner.counters().dispatches++;
    x = null;
    cumulativeStats = null;
  }

  @Override
  public Flight flight() {
    return flight;
  }

  @Override
  public LowLatencyViews views() {
    return out().outputViews.of(record.layout(), record.localExperts);
  }

  @Override
  public LowLatencyFormat format() {
    return format;
  }

  @Override
  public ScaleLayout scaleLayout() {
    return scaleLayout;
  }

  @Override
  public int topK() {
    return record.topK;
  }

  @Override
  public boolean weighted() {
    return record.weighted;
  }
}
