package org.ep4j.engine.host.lowlatency;

import org.ep4j.Event;
import org.ep4j.LowLatencyDispatch;
import org.ep4j.LowLatencyDispatchOptions;
import org.ep4j.LowLatencyHandle;
import org.ep4j.RankMajorDispatch;
import org.ep4j.ReceiveHook;
import org.ep4j.RowFormat;
import org.ep4j.ScaleLayout;
import org.ep4j.Tensor;
import org.ep4j.engine.Arguments;
import org.ep4j.engine.host.layout.LowLatencyFormat;
import org.jspecify.annotations.Nullable;

/** A low-latency dispatch: its arguments, its result, its handle and its hook. */
class LowLatencyDispatchOperation extends LowLatencyOperation
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

  final void prepare(
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
  final int half() {
    return (int) (ordinal & 1);
  }

  final boolean isOf(LowLatency buffer) {
    return owner == buffer;
  }

  @Override
  final void send() {
    owner.dispatchSender().send(this);
  }

  @Override
  final void complete() {
    owner.dispatchReceiver().receive(this);
    owner.received(this);
    owner.counters().dispatches++;
    x = null;
    cumulativeStats = null;
  }

  @Override
  final boolean outdated() {
    return owner.isOutdated(this);
  }

  final LowLatencyOutputs outputs() {
    requireResults();
    return memory.outputs(half(), record.byRanks);
  }

  @Override
  public final Tensor x() {
    return outputs().rows(format);
  }

  @Override
  public final boolean hasScales() {
    requireResults();
    return format.format() != RowFormat.BF16;
  }

  @Override
  public final Tensor scales() {
    Tensor scales = outputs().scales(format, scaleLayout);
    if (scales == null) {
      throw Arguments.missing("scales", "the rows are BF16");
    }
    return scales;
  }

  @Override
  public final Tensor counts() {
    return outputs().receiveCount();
  }

  @Override
  public final Tensor srcInfo() {
    return outputs().sourceInfo();
  }

  @Override
  public final Tensor layoutRange() {
    return outputs().layoutRange();
  }

  @Override
  public final LowLatencyHandle handle() {
    return this;
  }

  @Override
  public final ReceiveHook hook() {
    return ownHook();
  }

  @Override
  public final Event event() {
    return ownEvent();
  }

  /** A dispatch with RANK_MAJOR rows. */
  static final class ByRank extends LowLatencyDispatchOperation implements RankMajorDispatch {
    ByRank(
        LowLatency owner,
        LowLatencyMemory memory,
        LowLatencyRecord record,
        LowLatencyFormat format) {
      super(owner, memory, record, format);
    }

    @Override
    public Tensor topkIdx() {
      return outputs().choices(record.topK);
    }

    @Override
    public boolean hasWeights() {
      requireResults();
      return record.weighted;
    }

    @Override
    public Tensor topkWeights() {
      LowLatencyOutputs outputs = outputs();
      if (!record.weighted) {
        throw Arguments.missing("topkWeights", "the routing of the dispatch had none");
      }
      return outputs.choiceWeights(record.topK);
    }
  }
}
