package org.ep4j.engine.host.lowlatency;

import org.ep4j.engine.host.context.HostContext;
import org.ep4j.engine.lowlatency.Flight;
import org.ep4j.engine.lowlatency.Flights;
import org.ep4j.error.Ep4jException;
import org.ep4j.error.ErrorCode;
import org.ep4j.execution.Event;
import org.ep4j.execution.Execution;
import org.ep4j.observe.OperationEvent;
import org.ep4j.tensor.Tensor;
import org.jspecify.annotations.Nullable;

/** One low-latency operation: sends and, without hook, receives, on any one thread. */
abstract class LowLatencyOperation implements Flight.Work, Runnable {
  /** Its state. */
  final Flight flight;

  /** The kind of operation, for messages. */
  final String operation;

  private final LowLatency owner;

  /** This operation, for the flight recorder. */
  private final OperationEvent recorded = new OperationEvent();

  @Nullable Tensor waitStats;

  private boolean hooked;

  /** What the operation waits for when it runs. */
  private @Nullable Event previous;

  private boolean readsLate;

  private Event event = Event.completed();
  private boolean async;

  LowLatencyOperation(LowLatency owner, Flights.Kind kind) {
    this.owner = owner;
    operation = kind.toString();
    flight = new Flight(owner.flights(), kind, this);
  }

  /**
   * Reads the contents of the routing and checks them: in the call or, if the operation reads late,
   * when it runs.
   */
  abstract void read();

  /** The sending half. */
  abstract void send();

  /** Whether this rank receives rows from {@code source}. */
  abstract boolean awaits(int source);

  /** The receiving half. */
  abstract void complete();

  /**
   * Reads the routing before the operation counts, so that neither a refusal nor an event that does
   * not come breaks the buffer. An asynchronous operation with an event reads when it runs: the
   * routing may be written until the event.
   *
   * @param readable whether what an earlier operation reads is there
   */
  final void readEarly(Execution execution, boolean readable) {
    Event before = execution.previousEvent();
    readsLate = execution.isAsync() && (before != null || !readable);
    previous = readsLate ? before : null;
    if (!readsLate) {
      owner.entry().awaitPrevious(before, operation);
      read();
    }
  }

  /** Whether the operation reads the routing when it runs. */
  final boolean readsLate() {
    return readsLate;
  }

  /** Begins the started operation, on another thread if {@code execution} is asynchronous. */
  final void begin(boolean withHook, @Nullable Tensor stats, Execution execution) {
    hooked = withHook;
    waitStats = stats;
    event = Event.completed();
    async = execution.isAsync();
    if (async) {
      event = owner.entry().later(this);
    } else {
      run();
    }
  }

  @Override
  public final void run() {
    try {
      owner.entry().requireUsable();
      owner.entry().awaitPrevious(previous, operation);
      previous = null;
      if (readsLate) {
        read();
      }
      recorded.begin();
      send();
      flight.sent();
      if (!hooked) {
        owner.flights().receiveUpTo(flight);
      }
    } catch (RuntimeException | Error e) {
      throw failed(e);
    }
  }

  @Override
  public final void receive() {
    try {
      complete();
      flight.received();
      owner.recordEnd(recorded, operation, number());
    } catch (RuntimeException | Error e) {
      throw failed(e);
    }
  }

  @Override
  public final void awaitSent() {
    if (async) {
      event.await();
    }
  }

  @Override
  public final void awaitResults() {
    // Complete: the operation has been received.
  }

  /** Its number. */
  final long number() {
    return flight.number();
  }

  /** The end of an asynchronous operation. */
  public final Event event() {
    return event;
  }

  /** Ends the operation as failed and notifies the other ranks; returns the exception to throw. */
  private RuntimeException failed(Throwable thrown) {
    RuntimeException cause =
        switch (thrown) {
          case RuntimeException e -> e;
          case InternalError e -> HostContext.outOfPages(flight.toString(), e);
          default -> new Ep4jException(ErrorCode.CALL_FAILED, thrown.toString(), thrown);
        };
    if (flight.fail()) {
      owner.entry().failed(flight + ": " + cause.getMessage(), cause);
    }
    if (thrown instanceof Error error && !(thrown instanceof InternalError)) {
      throw error;
    }
    return cause;
  }
}
