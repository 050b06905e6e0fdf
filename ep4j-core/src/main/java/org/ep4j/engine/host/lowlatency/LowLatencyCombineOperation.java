package org.ep4j.engine.host.lowlatency;

import static java.util.Objects.requireNonNull;

import org.ep4j.CombineOrder;
import org.ep4j.LowLatencyCombine;
import org.ep4j.LowLatencyCombineOptions;
import org.ep4j.execution.ReceiveHook;
import org.ep4j.routing.Routing;
import org.ep4j.tensor.Tensor;
import org.jspecify.annotations.Nullable;

/** A low-latency combine: its arguments, its result and its hook. */
final class LowLatencyCombineOperation extends LowLatencyOperation implements LowLatencyCombine {
  private final LowLatency owner;

  /** The dispatch whose rows return. */
  LowLatencyRecord record;

  /** Combine region of that dispatch. */
  int half;

  boolean logFmt;
  boolean zeroCopy;
  boolean partialRounding;

  /** Whether rows are added in ascending order of {@link #experts}. */
  boolean byExperts;

  /** Expert of each choice; filled with {@link #byExperts}. */
  long[] experts = new long[0];

  /** For each choice, whether it counts. */
  boolean[] kept = new boolean[0];

  /** Weight of each choice. */
  float[] weights = new float[0];

  /** The routing until it is read. */
  private @Nullable Routing routing;

  /** The experts' rows; null once no rank reads them. */
  @Nullable Tensor y;

  /** Whether this rank reads its own rows from y; otherwise y may change after the send. */
  boolean ownInPlace;

  /** Destination of the sums. */
  private @Nullable Tensor out;

  LowLatencyCombineOperation(LowLatency owner, LowLatencyRecord record) {
    super(owner, owner.flights().combines);
    this.owner = owner;
    this.record = record;
  }

  void prepare(
      Tensor y,
      Routing choices,
      LowLatencyDispatchOperation dispatch,
      LowLatencyCombineOptions options,
      Tensor out) {
    this.y = y;
    this.routing = choices;
    this.byExperts = options.order() == CombineOrder.EXPERT;
    this.record = dispatch.record;
    this.half = dispatch.flight.half();
    this.logFmt = options.logFmt();
    this.zeroCopy = options.zeroCopy();
    this.partialRounding = options.partialRounding();
    this.ownInPlace = !options.returnHook() && !zeroCopy && !logFmt && y.nativeHost();
    this.out = out;
  }

  /** Makes space for the choices of a full batch. */
  void ensureSlots(int slots) {
    if (kept.length < slots) {
      kept = new boolean[slots];
      weights = new float[slots];
      experts = new long[slots];
    }
  }

  Tensor out() {
    Tensor sums = out;
    if (sums == null) {
      throw new IllegalStateException(flight + " was never started");
    }
    return sums;
  }

  @Override
  void read() {
    Routing choices = requireNonNull(routing);
    if (!record.byRanks) {
      LowLatencyRouting.readAgain(choices, record, kept, weights);
      if (byExperts) {
        LowLatencyRouting.readExperts(choices, record, experts);
      }
    }
    routing = null;
  }

  @Override
  void send() {
    owner.combineSender().send(this);
  }

  @Override
  boolean awaits(int source) {
    return record.sent[source] > 0;
  }

  @Override
  void complete() {
    owner.combineReceiver().receive(this);
    owner.counters().combines++;
    y = null;
  }

  @Override
  public Tensor x() {
    flight.requireResults();
    return out();
  }

  @Override
  public ReceiveHook hook() {
    return flight.hook();
  }
}
