package org.ep4j.cuda.engine.lowlatency;

import org.ep4j.DeviceStream;
import org.ep4j.ErrorCode;
import org.ep4j.Event;
import org.ep4j.IllegalUseException;
import org.ep4j.ReceiveHook;
import org.ep4j.Tensor;
import org.ep4j.cuda.driver.CudaStream;
import org.ep4j.cuda.engine.context.OperationEnd;
import org.ep4j.cuda.engine.launch.KernelCall;
import org.ep4j.cuda.struct.LowLatencyParameters;
import org.ep4j.engine.Operation;
import org.jspecify.annotations.Nullable;

/**
 * One low-latency operation from its start until its results are outdated: state, hook, and the
 * checks of its accessors. Objects are created once and reused in rotation; after a few reuses an
 * outdated reference is no longer distinguishable from a new one.
 */
abstract class LowLatencyOperation implements ReceiveHook {
  private static final int FRESH = 0;
  private static final int SENT = 1;
  private static final int ENQUEUED = 2;
  private static final int FAILED = 3;

  /** The kind of operation, for messages. */
  final String operation;

  private final LowLatency owner;

  /** Number among all low-latency operations since the last reset; 0 before the first use. */
  long number;

  /** Number in the call log; 0 if not logged. */
  long call;

  /** Tokens of this rank. */
  int tokens;

  /** The caller's stream, or null. */
  @Nullable DeviceStream callers;

  @Nullable Tensor waitStats;

  private boolean hooked;
  private boolean hookCalled;

  /** The end of the enqueued half. */
  private final OperationEnd end;

  private int state = FRESH;

  LowLatencyOperation(LowLatency owner, String operation) {
    this.owner = owner;
    this.operation = operation;
    end = new OperationEnd(owner.completion());
  }

  /** The kernel of the operation. */
  abstract KernelCall<LowLatencyParameters> call();

  /** Shared memory of a block. */
  abstract int sharedBytes();

  /** Sets the parameters of the sending half. */
  abstract void prepareSend(LowLatencyParameters p);

  /** Sets the parameters of the receiving half. */
  abstract void prepareReceive(LowLatencyParameters p, CudaStream stream);

  /** Counts the operation, which is completely enqueued. */
  abstract void count();

  /** Describes what must be equal on all ranks. */
  abstract void describe(Operation description);

  /** Whether results must be copied to the host at the end. */
  abstract boolean endsOnHost();

  /** Copies results to the host; the operation has ended. */
  abstract void toHost();

  /** Whether the memory of the results has been reused. */
  abstract boolean outdated();

  /** Starts the object's next use as operation {@code next}. */
  final void start(
      long next, boolean split, @Nullable DeviceStream stream, @Nullable Tensor stats) {
    number = next;
    hooked = split;
    hookCalled = false;
    callers = stream;
    waitStats = stats;
    end.none();
    state = FRESH;
  }

  /** Marks the sending half as enqueued. */
  final void sent(long ticket) {
    end.enqueued(operation, number, ticket);
    state = SENT;
  }

  /** Marks the whole operation as enqueued. */
  final void enqueued(long ticket) {
    end.enqueued(operation, number, ticket);
    state = ENQUEUED;
  }

  /** The hook. */
  @Override
  public final void receive() {
    owner.entry().enter();
    try {
      requireHook();
      try {
        owner.receiveUpTo(this);
      } finally {
        // After a failed launch the hook can be called again.
        hookCalled = !awaitsReceipt();
      }
    } finally {
      owner.entry().leave();
    }
  }

  /** Whether the receiving half is still to be enqueued. */
  final boolean awaitsReceipt() {
    return state == SENT;
  }

  /** Waits for the enqueued work, unless it runs on the caller's stream. */
  final void settle() {
    if (callers == null) {
      awaitEnd();
    }
  }

  /** Waits for the enqueued work. */
  final void awaitEnd() {
    end.await();
  }

  /** Drops the operation: it never gets results. */
  final void drop() {
    state = FAILED;
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
    return end.event();
  }

  /** Requires readable results, in the order of the caller's stream if there is one. */
  final void requireResults() {
    requireCurrent();
    if (state == SENT) {
      throw new IllegalUseException(
          ErrorCode.HOOK_NOT_CALLED, name() + " has not been received: call its hook first");
    }
    if (state == FAILED) {
      throw new IllegalUseException(
          ErrorCode.NO_RESULTS,
          name() + " failed or was aborted by reset(): start a new operation");
    }
    settle();
  }

  final void requireCurrent() {
    if (outdated()) {
      throw new IllegalUseException(
          ErrorCode.RESULTS_OVERWRITTEN,
          "the results of "
              + name()
              + " are overwritten; they are valid until the second next "
              + operation
              + ": use or copy them before");
    }
  }

  /** Name in messages. */
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
}
