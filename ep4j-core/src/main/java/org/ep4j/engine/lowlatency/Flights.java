package org.ep4j.engine.lowlatency;

import org.ep4j.LowLatencyHandle;
import org.ep4j.engine.Arguments;
import org.ep4j.error.ErrorCode;
import org.ep4j.error.IllegalUseException;
import org.jspecify.annotations.Nullable;

/**
 * The low-latency operations of one buffer: numbers them, limits them to two in flight, receives
 * them in the order in which all ranks have sent them, and says whose results are overwritten. Used
 * by the thread in the buffer; {@link #receiveUpTo} also by the thread of an asynchronous
 * operation.
 */
public final class Flights {
  /** Objects of each kind that an engine uses in rotation. */
  public static final int OBJECTS = 16;

  /** The functions of the buffer that hooks use: callers invoke hooks directly. */
  public interface Entry {
    /** Begins a call: refuses a closed buffer and a second thread. */
    void enter();

    /** Ends the call that {@link #enter} began. */
    void leave();

    /** Refuses a buffer that needs a reset. */
    void requireUsable();
  }

  /** Operations of one kind: the results of the last two are valid. */
  public static final class Kind {
    private final String name;
    private long last;

    /** The last operation whose results a reset discarded. */
    private long reset;

    private Kind(String name) {
      this.name = name;
    }

    /** Number of the next operation of this kind. */
    public long next() {
      return last + 1;
    }

    boolean isOutdated(long ordinal) {
      return ordinal <= reset || last - ordinal >= 2;
    }

    @Override
    public String toString() {
      return name;
    }
  }

  /** Dispatches. */
  public final Kind dispatches = new Kind("low-latency dispatch");

  /** Combines. */
  public final Kind combines = new Kind("low-latency combine");

  private final Entry entry;

  /** The last two operations; at most these are in flight. */
  private @Nullable Flight older;

  private @Nullable Flight newer;

  /** Number of the last operation. */
  private long number;

  /** No operations. */
  public Flights(Entry entry) {
    this.entry = entry;
  }

  Entry entry() {
    return entry;
  }

  /** Refuses a third operation in flight; waits until another thread has sent the earlier one. */
  public void requirePlace() {
    Flight before = older;
    if (before == null) {
      return;
    }
    before.awaitSent();
    if (before.awaitsHook()) {
      throw new IllegalUseException(
          ErrorCode.TOO_MANY_IN_FLIGHT,
          "a third low-latency operation would be in flight: call the hook of "
              + before
              + " first");
    }
  }

  /**
   * Starts the next operation. It counts when it is {@link #add added}.
   *
   * @param hooked whether a hook receives it
   * @param overwritten whether the second next operation of its kind overwrites its results
   */
  public void start(Flight flight, Kind kind, boolean hooked, boolean overwritten) {
    kind.last++;
    flight.start(number + 1, kind.last, hooked, overwritten);
  }

  /** The started operation is under way: it is the last one from here on. */
  public void add(Flight flight) {
    number = flight.number();
    older = newer;
    newer = flight;
  }

  /** Receives {@code flight} after the operation sent before it. */
  public void receiveUpTo(Flight flight) {
    Flight before = older;
    if (flight == newer && before != null) {
      before.receiveIfSent();
    }
    flight.receiveIfSent();
  }

  /** Receives all operations in flight. */
  public void receiveAll() {
    if (newer != null) {
      receiveUpTo(newer);
    }
  }

  /**
   * The dispatch of a handle, whose results are valid.
   *
   * @return a dispatch that this buffer has made
   */
  public LowLatencyResult.Dispatched dispatchOf(LowLatencyHandle handle) {
    if (!(handle instanceof LowLatencyResult result) || !result.dispatched().flight().isOf(this)) {
      throw Arguments.invalid(
          ErrorCode.WRONG_HANDLE,
          "handle",
          handle,
          "a handle of a lowLatencyDispatch of this buffer",
          "pass the handle of the dispatch");
    }
    result.dispatched().flight().requireCurrent();
    return result.dispatched();
  }

  /** Requires that a dispatch has been received. */
  public static void requireReceived(Flight dispatch) {
    if (dispatch.awaitsHook()) {
      throw new IllegalUseException(
          ErrorCode.HOOK_NOT_CALLED,
          dispatch + " has not been received: call its hook before its combine");
    }
  }

  /** Whether an operation in flight awaits its hook. */
  public boolean awaitsHook() {
    return (older != null && older.awaitsHook()) || (newer != null && newer.awaitsHook());
  }

  /** Number of the last operation. */
  public long number() {
    return number;
  }

  /**
   * Continues at the number of the other ranks, which are ahead: no operation may be in flight.
   *
   * @param own number of this rank
   */
  public void catchUp(long highest, long own) {
    Flight waiting = older != null && older.awaitsHook() ? older : newer;
    if (highest > own && waiting != null && waiting.awaitsHook()) {
      throw new IllegalUseException(
          ErrorCode.HOOK_NOT_CALLED,
          "other ranks are at low-latency operation "
              + highest
              + ", this one at "
              + own
              + " with "
              + waiting
              + " in flight: call its hook before ranks are admitted");
    }
    number = highest;
  }

  /** Aborts the operations in flight, discards all results, and continues after {@code highest}. */
  public void reset(long highest) {
    if (older != null) {
      older.drop();
    }
    if (newer != null) {
      newer.drop();
    }
    // No later operation waits for these: the event of one that failed throws its error each time.
    older = null;
    newer = null;
    dispatches.reset = dispatches.last;
    combines.reset = combines.last;
    number = highest;
  }
}
