package org.ep4j.engine.host.lowlatency;

import org.ep4j.Ep4jException;
import org.ep4j.ErrorCode;
import org.ep4j.Event;
import org.ep4j.IllegalUseException;
import org.ep4j.ReceiveHook;
import org.ep4j.Tensor;
import org.ep4j.engine.host.context.HostContext;
import org.jspecify.annotations.Nullable;

/**
 * One low-latency operation from its start until its results are overwritten: its state, its hook,
 * and the checks of its accessors. A few objects are used in rotation; after some rotations an old
 * reference cannot be distinguished from a new one.
 */
abstract class LowLatencyOperation implements ReceiveHook, Runnable {
  private static final int FRESH = 0;
  private static final int STARTED = 1;
  private static final int SENT = 2;
  private static final int RECEIVED = 3;
  private static final int FAILED = 4;

  /** The kind of operation, for messages. */
  final String operation;

  private final LowLatency owner;

  /** Number among all low-latency operations; 0 before the first use. */
  long number;

  @Nullable Tensor waitStats;

  private boolean hooked;
  private boolean hookCalled;
  private @Nullable Event previous;
  private Event event = Event.completed();
  private boolean async;

  /** Written by the thread that runs the operation, read after its end. */
  private int state = FRESH;

  LowLatencyOperation(LowLatency owner, String operation) {
    this.owner = owner;
    this.operation = operation;
  }

  /** The sending half. */
  abstract void send();

  /** The receiving half. */
  abstract void complete();

  /** Whether a later operation has reused the memory of the results. */
  abstract boolean outdated();

  /** Starts the object as operation {@code number}. */
  final void start(
      long number, boolean hooked, @Nullable Tensor waitStats, @Nullable Event previous) {
    this.number = number;
    this.hooked = hooked;
    this.hookCalled = false;
    this.waitStats = waitStats;
    this.previous = previous;
    this.event = Event.completed();
    this.async = false;
    this.state = STARTED;
  }

  /** Records that the operation runs on another thread; {@code event} reports its end. */
  final void runsAsync(Event event) {
    this.event = event;
    this.async = true;
  }

  /** Sends and, without hook, receives. */
  @Override
  public final void run() {
    try {
      owner.entry().requireUsable();
      owner.entry().awaitPrevious(previous, operation);
      previous = null;
      send();
      state = SENT;
      if (!hooked) {
        owner.receiveUpTo(this);
      }
    } catch (RuntimeException | Error e) {
      throw failed(e);
    }
  }

  /** The hook. */
  @Override
  public final void receive() {
    owner.entry().enter();
    try {
      requireHook();
      hookCalled = true;
      owner.receiveUpTo(this);
    } finally {
      owner.entry().exit();
    }
  }

  /** Receives unless already received. */
  final void receiveNow() {
    if (state == SENT) {
      try {
        complete();
        state = RECEIVED;
      } catch (RuntimeException | Error e) {
        throw failed(e);
      }
    }
  }

  /** Whether peers may still send to this operation or read from it. */
  final boolean inFlight() {
    return state == STARTED || state == SENT;
  }

  /** Whether the caller must call the hook before the results are available. */
  final boolean awaitsHook() {
    return hooked && state == SENT;
  }

  /** Waits for the end of an asynchronous run. */
  final void awaitRun() {
    if (async) {
      event.await();
    }
  }

  /** Aborts the operation: it will have no results. */
  final void drop() {
    if (inFlight()) {
      state = FAILED;
    }
  }

  final ReceiveHook ownHook() {
    if (!hooked) {
      throw new IllegalUseException(
          ErrorCode.NO_HOOK,
          name() + " was started without returnHook: its results are complete and it has no hook");
    }
    return this;
  }

  final Event ownEvent() {
    return event;
  }

  /** Requires readable results. */
  final void requireResults() {
    requireCurrent();
    awaitRun();
    if (state == SENT) {
      throw new IllegalUseException(
          ErrorCode.HOOK_NOT_CALLED, name() + " has not been received: call its hook first");
    }
    if (state == FAILED) {
      throw new IllegalUseException(
          ErrorCode.NO_RESULTS,
          name() + " failed or was aborted by reset(): start a new operation");
    }
  }

  final void requireCurrent() {
    if (outdated()) {
      throw new IllegalUseException(
          ErrorCode.RESULTS_OVERWRITTEN,
          "the results of "
              + name()
              + " are overwritten; they are valid until the second next "
              + operation
              + ": use or copy them before it");
    }
  }

  /** Name and number for messages. */
  final String name() {
    return operation + " " + number;
  }

  private void requireHook() {
    if (hookCalled) {
      throw new IllegalUseException(
          ErrorCode.HOOK_CALLED_TWICE, "the hook of " + name() + " has been called: call it once");
    }
    if (state == FAILED) {
      throw new IllegalUseException(
          ErrorCode.NO_RESULTS,
          name() + " failed or was aborted by reset(): start a new operation");
    }
    ownHook();
  }

  /** Ends the operation as failed and notifies the other ranks; returns the exception to throw. */
  private RuntimeException failed(Throwable thrown) {
    RuntimeException cause =
        switch (thrown) {
          case RuntimeException e -> e;
          case InternalError e -> HostContext.outOfPages(name(), e);
          default -> new Ep4jException(ErrorCode.CALL_FAILED, thrown.toString(), thrown);
        };
    if (state != FAILED) {
      state = FAILED;
      owner.entry().failed(name() + ": " + cause.getMessage(), cause);
    }
    if (thrown instanceof Error error && !(thrown instanceof InternalError)) {
      throw error;
    }
    return cause;
  }
}
