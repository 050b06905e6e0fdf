package org.ep4j.c;

import java.lang.invoke.MethodHandles;
import java.lang.invoke.VarHandle;

/**
 * A thread that calls functions of the table, and whether it is in a call. {@link #interrupt} sets
 * the interrupt flag of the thread; {@link #leave} clears it again, so an interrupt ends no later
 * call.
 *
 * <p>Protocol. {@link #state} is the number of the present or last call, with one of the phases in
 * its lowest bits. The thread itself begins and ends calls. An interrupter moves the call that it
 * has seen from {@link #CALLING} to {@link #INTERRUPTED}, and holds the lock until the flag is set.
 * A call that ends first makes that step fail; an interrupted call takes the lock before it ends,
 * so the flag is never set afterwards.
 */
final class Caller {
  private static final long IDLE = 0;
  private static final long CALLING = 1;
  private static final long INTERRUPTED = 2;
  private static final long PHASES = 3;

  /** Difference of the states of two successive calls. */
  private static final long CALL = 4;

  private static final VarHandle STATE;

  private static final ThreadLocal<Caller> PRESENT =
      ThreadLocal.withInitial(() -> new Caller(Thread.currentThread()));

  static {
    try {
      STATE = MethodHandles.lookup().findVarHandle(Caller.class, "state", long.class);
    } catch (ReflectiveOperationException e) {
      throw new ExceptionInInitializerError(e);
    }
  }

  private final Thread thread;

  /**
   * Number and phase of a call. The thread begins a call with release order, which costs no fence:
   * an interrupter that does not see the call yet has no effect, and is called again. All other
   * changes are compare-and-set steps, or writes with the lock held.
   */
  private volatile long state = IDLE;

  Caller(Thread thread) {
    this.thread = thread;
  }

  /** The caller that the present thread is. */
  static Caller present() {
    return PRESENT.get();
  }

  /** Begins a call of the present thread. Allocates nothing after the first call. */
  static Caller enter() {
    Caller caller = PRESENT.get();
    caller.begin();
    return caller;
  }

  /** Begins a call; its own thread. */
  void begin() {
    STATE.setRelease(this, (state & ~PHASES) + CALL + CALLING);
  }

  /** Ends the call; its own thread. */
  void leave() {
    long present = state;
    long ended = present & ~PHASES;
    if (!STATE.compareAndSet(this, ended + CALLING, ended + IDLE)) {
      endInterrupted(ended);
    }
  }

  private synchronized void endInterrupted(long ended) {
    // The interrupter set the flag while it held the lock.
    boolean ignored = Thread.interrupted();
    state = ended + IDLE;
  }

  /** Ends the wait of the present call; no effect between calls. Any thread. */
  synchronized void interrupt() {
    long seen = state;
    long phase = seen & PHASES;
    if (phase == INTERRUPTED
        || phase == CALLING && STATE.compareAndSet(this, seen, (seen & ~PHASES) + INTERRUPTED)) {
      thread.interrupt();
    }
  }

  /** Whether the thread has ended. */
  boolean isGone() {
    return !thread.isAlive();
  }
}
