package org.ep4j.engine.lowlatency;

import org.ep4j.error.ErrorCode;
import org.ep4j.error.IllegalUseException;
import org.ep4j.execution.ReceiveHook;

/**
 * One low-latency operation from its start until its results are overwritten: its numbers, its
 * state, its hook, and the checks of its accessors. A few objects are used in rotation; after some
 * rotations an old reference cannot be distinguished from a new one.
 *
 * <p>The thread that runs the operation writes the state; the thread in the buffer reads it after
 * {@link Work#awaitSent}.
 */
public final class Flight implements ReceiveHook {
  private enum State {
    FRESH,
    STARTED,
    SENT,
    RECEIVED,
    FAILED
  }

  /** The engine's part of an operation. */
  public interface Work {
    /** Receives, and calls {@link Flight#received}. All operations before have been received. */
    void receive();

    /** Waits until the operation has been sent or has failed, if another thread sends it. */
    void awaitSent();

    /** Waits until results can be read; throws the error of the operation. */
    void awaitResults();
  }

  private final Flights flights;
  private final Flights.Kind kind;
  private final Work work;
  private long number;
  private long ordinal;
  private boolean hooked;
  private boolean hookCalled;
  private boolean resultsOverwritten;
  private State state = State.FRESH;

  /** A flight of one kind of operations. */
  public Flight(Flights flights, Flights.Kind kind, Work work) {
    this.flights = flights;
    this.kind = kind;
    this.work = work;
  }

  void start(long number, long ordinal, boolean hooked, boolean overwritten) {
    this.number = number;
    this.ordinal = ordinal;
    this.hooked = hooked;
    hookCalled = false;
    resultsOverwritten = overwritten;
    state = State.STARTED;
  }

  /** Number among all low-latency operations; 0 before the first use. */
  public long number() {
    return number;
  }

  /** Number among the operations of its kind. */
  public long ordinal() {
    return ordinal;
  }

  /** Half of the alternating memory that the operation uses. */
  public int half() {
    return (int) (ordinal & 1);
  }

  /** The operation has been sent. */
  public void sent() {
    state = State.SENT;
  }

  /** The operation has been received. */
  public void received() {
    state = State.RECEIVED;
  }

  /** The operation has failed; returns whether that is new. */
  public boolean fail() {
    boolean first = state != State.FAILED;
    state = State.FAILED;
    return first;
  }

  /** Aborts the operation if peers may still send to it or read from it: it has no results. */
  void drop() {
    if (state == State.STARTED || state == State.SENT) {
      state = State.FAILED;
    }
  }

  void receiveIfSent() {
    if (state == State.SENT) {
      work.receive();
    }
  }

  void awaitSent() {
    work.awaitSent();
  }

  /** Whether the caller must call the hook before there are results. */
  public boolean awaitsHook() {
    return hooked && state == State.SENT;
  }

  boolean isOf(Flights others) {
    return flights == others;
  }

  /** The hook. */
  @Override
  public void receive() {
    flights.entry().enter();
    try {
      requireHook();
      flights.entry().requireUsable();
      try {
        flights.receiveUpTo(this);
      } finally {
        // A hook whose receipt could not even begin can be called again.
        hookCalled = !awaitsHook();
      }
    } finally {
      flights.entry().leave();
    }
  }

  /** The hook for callers. */
  public ReceiveHook hook() {
    if (!hooked) {
      throw new IllegalUseException(
          ErrorCode.NO_HOOK,
          this + " was started without returnHook: its results are complete and it has no hook");
    }
    return this;
  }

  /** Requires results that can be read. */
  public void requireResults() {
    requireCurrent();
    work.awaitSent();
    if (state == State.SENT) {
      throw new IllegalUseException(
          ErrorCode.HOOK_NOT_CALLED, this + " has not been received: call its hook first");
    }
    requireNotFailed();
    work.awaitResults();
  }

  /** Requires that the operation has been sent: its outputs have memory. */
  void requireSent() {
    requireCurrent();
    work.awaitSent();
    requireNotFailed();
  }

  /** Requires that no later operation has overwritten the results. */
  void requireCurrent() {
    if (resultsOverwritten && kind.isOutdated(ordinal)) {
      throw new IllegalUseException(
          ErrorCode.RESULTS_OVERWRITTEN,
          "the results of "
              + this
              + " are overwritten; they are valid until the second next "
              + kind
              + " or reset() of the buffer: use or copy them before it");
    }
  }

  private void requireNotFailed() {
    if (state == State.FAILED) {
      throw new IllegalUseException(
          ErrorCode.NO_RESULTS, this + " failed or was aborted by reset(): start a new operation");
    }
  }

  private void requireHook() {
    if (hookCalled) {
      throw new IllegalUseException(
          ErrorCode.HOOK_CALLED_TWICE, "the hook of " + this + " has been called: call it once");
    }
    requireNotFailed();
    hook();
  }

  /** Name and number for messages. */
  @Override
  public String toString() {
    return kind + " " + number;
  }
}
