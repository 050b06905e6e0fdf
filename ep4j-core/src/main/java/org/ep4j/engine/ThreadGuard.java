package org.ep4j.engine;

import java.util.concurrent.atomic.AtomicReference;
import org.jspecify.annotations.Nullable;

/** The door of a buffer: one thread at a time, nobody once it is shut. Any thread may knock. */
public final class ThreadGuard {
  /** The thread inside; null between calls. */
  private final AtomicReference<@Nullable Thread> inside = new AtomicReference<>();

  /** Written and read by the thread inside. */
  private boolean shut;

  /** An open door. */
  public ThreadGuard() {}

  /** Lets the calling thread in until {@link #leave}. */
  public void enter() {
    Thread other = inside.compareAndExchange(null, Thread.currentThread());
    if (other != null) {
      throw new IllegalStateException(
          "two threads in one buffer: "
              + other.getName()
              + " is inside, "
              + Thread.currentThread().getName()
              + " called; one thread at a time may use a buffer");
    }
    if (shut) {
      inside.set(null);
      throw new IllegalStateException("the buffer has been closed: open a new one");
    }
  }

  /** Lets the calling thread in to close the buffer, also if that has been done before. */
  public void enterForClose() {
    Thread other = inside.compareAndExchange(null, Thread.currentThread());
    if (other != null) {
      throw new IllegalStateException(
          "close() while " + other.getName() + " is inside the buffer: let it return first");
    }
  }

  /** Lets the next one in. */
  public void leave() {
    inside.set(null);
  }

  /** Nobody enters from now on. */
  public void shut() {
    shut = true;
  }

  /** Whether {@link #shut} has been called; asked by the thread inside. */
  public boolean isShut() {
    return shut;
  }
}
