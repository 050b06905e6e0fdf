package org.ep4j.engine;

import java.util.concurrent.atomic.AtomicReference;
import org.ep4j.error.ErrorCode;
import org.ep4j.error.IllegalUseException;
import org.jspecify.annotations.Nullable;

/**
 * Admits one thread at a time to a buffer or counter, and none after it is closed. Any thread may
 * call {@link #enter}.
 */
public final class ThreadGuard {
  /** The thread inside; null between calls. */
  private final AtomicReference<@Nullable Thread> inside = new AtomicReference<>();

  /** Written and read by the thread inside only. */
  private boolean shut;

  private final String guarded;

  /**
   * An open guard.
   *
   * @param guarded the kind of the object, for errors
   */
  public ThreadGuard(String guarded) {
    this.guarded = guarded;
  }

  /** An open guard of a buffer. */
  public ThreadGuard() {
    this("buffer");
  }

  /** Admits the calling thread until {@link #leave}. */
  public void enter() {
    Thread other = inside.compareAndExchange(null, Thread.currentThread());
    if (other != null) {
      throw new IllegalUseException(
          ErrorCode.BUFFER_IN_USE,
          "two threads in one "
              + guarded
              + ": "
              + other.getName()
              + " is inside, "
              + Thread.currentThread().getName()
              + " called; one thread at a time may use a "
              + guarded);
    }
    if (shut) {
      inside.set(null);
      throw new IllegalUseException(
          ErrorCode.BUFFER_CLOSED, "the " + guarded + " has been closed: open a new one");
    }
  }

  /** Admits the calling thread to close, also if all is closed already. */
  public void enterForClose() {
    Thread other = inside.compareAndExchange(null, Thread.currentThread());
    if (other != null) {
      throw new IllegalUseException(
          ErrorCode.BUFFER_IN_USE,
          "close() while "
              + other.getName()
              + " is inside the "
              + guarded
              + ": wait until that thread returns");
    }
  }

  /** Ends the exclusive access of the calling thread. */
  public void leave() {
    inside.set(null);
  }

  /** Refuses every later {@link #enter}. */
  public void shut() {
    shut = true;
  }

  /** Whether {@link #shut} has been called; called by the thread inside. */
  public boolean isShut() {
    return shut;
  }
}
