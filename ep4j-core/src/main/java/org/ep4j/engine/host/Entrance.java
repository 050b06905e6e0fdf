package org.ep4j.engine.host;

import java.util.concurrent.atomic.AtomicReference;
import org.jspecify.annotations.Nullable;

/** The door of a buffer: one thread at a time, nobody once it is shut. Any thread may knock. */
final class Entrance {
  /** The thread inside; null between calls. */
  private final AtomicReference<@Nullable Thread> inside = new AtomicReference<>();

  /** Written and read by the thread inside. */
  private boolean shut;

  /** Lets the calling thread in until {@link #leave}. */
  void enter() {
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
  void enterToClose() {
    Thread other = inside.compareAndExchange(null, Thread.currentThread());
    if (other != null) {
      throw new IllegalStateException(
          "close() while " + other.getName() + " is inside the buffer: let it return first");
    }
  }

  void leave() {
    inside.set(null);
  }

  /** Nobody enters from now on. */
  void shut() {
    shut = true;
  }

  boolean isShut() {
    return shut;
  }
}
