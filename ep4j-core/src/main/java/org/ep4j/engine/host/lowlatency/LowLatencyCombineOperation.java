package org.ep4j.engine.host.lowlatency;

import org.ep4j.Event;
import org.ep4j.LowLatencyCombine;
import org.ep4j.LowLatencyCombineOptions;
import org.ep4j.ReceiveHook;
import org.ep4j.Tensor;
import org.jspecify.annotations.Nullable;

/** A low-latency combine: its arguments, its result and its hook. */
final class LowLatencyCombineOperation extends LowLatencyOperation implements LowLatencyCombine {
  private final LowLatency owner;

  /** Number among the combines. */
  long ordinal;

  /** The dispatch whose rows return. */
  LowLatencyRecord record;

  /** Combine region of that dispatch. */
  int half;

  boolean logFmt;
  boolean zeroCopy;
  boolean partialRounding;

  /** For each choice, whether it counts. */
  boolean[] kept = new boolean[0];

  /** Weight of each choice. */
  float[] weights = new float[0];

  /** The experts' rows; null once no rank reads them. */
  @Nullable Tensor y;

  /** Whether this rank reads its own rows from y; otherwise y may change after the send. */
  boolean ownInPlace;

  /** Destination of the sums. */
  private @Nullable Tensor out;

  /** Whether {@link #out} is memory of the buffer. */
  private boolean ownOut;

  LowLatencyCombineOperation(LowLatency owner, LowLatencyRecord record) {
    super(owner, "low-latency combine");
    this.owner = owner;
    this.record = record;
  }

  void prepare(
      long ordinal,
      Tensor y,
      LowLatencyDispatchOperation dispatch,
      LowLatencyCombineOptions options,
      Tensor out) {
    this.ordinal = ordinal;
    this.y = y;
    this.record = dispatch.record;
    this.half = dispatch.half();
    this.logFmt = options.logFmt();
    this.zeroCopy = options.zeroCopy();
    this.partialRounding = options.partialRounding();
    this.ownInPlace = !options.returnHook() && !zeroCopy && !logFmt && y.nativeHost();
    this.out = out;
    this.ownOut = options.out() == null;
  }

  /** Makes space for the choices of a full batch. */
  void ensureSlots(int slots) {
    if (kept.length < slots) {
      kept = new boolean[slots];
      weights = new float[slots];
    }
  }

  /** Half of the buffer's own sums that this combine uses. */
  int sumsHalf() {
    return (int) (ordinal & 1);
  }

  Tensor out() {
    Tensor sums = out;
    if (sums == null) {
      throw new IllegalStateException(name() + " was never started");
    }
    return sums;
  }

  @Override
  void send() {
    owner.combineSender().send(this);
  }

  @Override
  void complete() {
    owner.combineReceiver().receive(this);
    owner.counters().combines++;
    y = null;
  }

  @Override
  boolean outdated() {
    return ownOut && owner.isOutdated(this);
  }

  @Override
  public Tensor x() {
    requireResults();
    return out();
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
