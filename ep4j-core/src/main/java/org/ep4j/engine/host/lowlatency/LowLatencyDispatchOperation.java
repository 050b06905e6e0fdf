package org.ep4j.engine.host.lowlatency;

import org.ep4j.Event;
import org.ep4j.LowLatencyDispatch;
import org.ep4j.LowLatencyDispatchOptions;
import org.ep4j.LowLatencyHandle;
import org.ep4j.ReceiveHook;
import org.ep4j.RowFormat;
import org.ep4j.ScaleLayout;
import org.ep4j.Tensor;
import org.ep4j.engine.host.layout.LowLatencyFormat;
import org.jspecify.annotations.Nullable;

/** A low-latency dispatch: its arguments, its result, its handle and its hook. */
final class LowLatencyDispatchOperation extends LowLatencyOperation
    implements LowLatencyDispatch, LowLatencyHandle {
  private final LowLatency owner;
  private final LowLatencyMemory memory;

  /** Number among the dispatches. */
  long ordinal;

  LowLatencyRecord record;
  LowLatencyFormat format;
  float globalScale;
  ScaleLayout scaleLayout = ScaleLayout.ROW_MAJOR;
  @Nullable Tensor cumulativeStats;

  /** The caller's rows; null once no rank reads them. */
  @Nullable Tensor x;

  /** Address of the caller's rows if this rank reads its own rows there, else 0. */
  long ownRows;

  LowLatencyDispatchOperation(
      LowLatency owner, LowLatencyMemory memory, LowLatencyRecord record, LowLatencyFormat format) {
    super(owner, "low-latency dispatch");
    this.owner = owner;
    this.memory = memory;
    this.record = record;
    this.format = format;
  }

  void prepare(
      long ordinal,
      Tensor x,
      LowLatencyRecord record,
      LowLatencyFormat format,
      LowLatencyDispatchOptions options) {
    this.ordinal = ordinal;
    this.record = record;
    this.format = format;
    this.globalScale = options.globalScale();
    this.scaleLayout = options.scaleLayout();
    this.cumulativeStats = options.cumulativeStats();
    this.x = x;
    boolean inPlace = format.format() == RowFormat.BF16 && x.nativeHost() && !options.returnHook();
    this.ownRows = inPlace ? x.address() : 0;
  }

  /** Half of the outputs, and combine region, that this dispatch uses. */
  int half() {
    return (int) (ordinal & 1);
  }

  boolean isOf(LowLatency buffer) {
    return owner == buffer;
  }

  @Override
  void send() {
    owner.dispatchSender().send(this);
  }

  @Override
  void complete() {
    owner.dispatchReceiver().receive(this);
    owner.counters().dispatches++;
    x = null;
    cumulativeStats = null;
  }

  @Override
  boolean outdated() {
    return owner.isOutdated(this);
  }

  private LowLatencyOutputs outputs() {
    requireResults();
    return memory.outputs(half(), record.byRanks);
  }

  @Override
  public Tensor x() {
    return outputs().rows(format);
  }

  @Override
  public @Nullable Tensor scales() {
    return outputs().scales(format, scaleLayout);
  }

  @Override
  public Tensor counts() {
    return outputs().receiveCount();
  }

  @Override
  public @Nullable Tensor topkIdx() {
    LowLatencyOutputs outputs = outputs();
    return record.byRanks ? outputs.choices(record.topK) : null;
  }

  @Override
  public @Nullable Tensor topkWeights() {
    LowLatencyOutputs outputs = outputs();
    return record.weighted ? outputs.choiceWeights(record.topK) : null;
  }

  @Override
  public Tensor srcInfo() {
    return outputs().sourceInfo();
  }

  @Override
  public Tensor layoutRange() {
    return outputs().layoutRange();
  }

  @Override
  public LowLatencyHandle handle() {
    return this;
  }

  @Override
  public ReceiveHook hook() {
    return ownHook();
  }

  @Override
  public Event event() {
    return ownEvent();
  }
}
