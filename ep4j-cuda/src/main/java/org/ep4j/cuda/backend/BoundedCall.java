package org.ep4j.cuda.backend;

import java.time.Duration;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.atomic.AtomicReference;
import java.util.function.LongSupplier;
import org.ep4j.error.Ep4jException;
import org.ep4j.error.ErrorCode;
import org.ep4j.group.Group;
import org.ep4j.memory.Participants;
import org.jspecify.annotations.Nullable;

/**
 * Library calls that wait for other ranks without a limit. Each runs on its own thread; if a rank
 * is lost or the limit has passed, the thread is abandoned, and the memory that it may still write
 * must stay allocated.
 */
public final class BoundedCall {
  private static final long LOOK_MILLIS = 20;

  /** Abandoned threads that have not returned. */
  private static final AtomicInteger ABANDONED = new AtomicInteger();

  /** The state of a thread; whichever side changes it first decides. */
  private enum State {
    CALLING,
    RETURNED,
    ABANDONED
  }

  private BoundedCall() {}

  /**
   * Runs a call with the device of the world current.
   *
   * @param name name of the native function, for messages
   * @throws Ep4jException if the call throws or does not end
   */
  public static long call(BackendWorld world, String name, Duration limit, LongSupplier call) {
    return call(
        world.participants(),
        name,
        limit,
        () -> {
          world.device().makeCurrent();
          return call.getAsLong();
        });
  }

  static long call(Participants participants, String name, Duration limit, LongSupplier call) {
    AtomicReference<@Nullable Throwable> failure = new AtomicReference<>();
    AtomicReference<State> state = new AtomicReference<>(State.CALLING);
    long[] result = new long[1];
    Thread caller =
        Thread.ofPlatform()
            .daemon()
            .name("ep4j-" + name)
            .unstarted(
                () -> {
                  try {
                    result[0] = call.getAsLong();
                  } catch (Throwable t) {
                    failure.set(t);
                  }
                  if (state.getAndSet(State.RETURNED) == State.ABANDONED) {
                    ABANDONED.decrementAndGet();
                  }
                });
    caller.start();
    boolean ended = false;
    try {
      await(participants, name, limit, caller);
      ended = true;
    } finally {
      if (!ended) {
        // Counted first, so that the thread never counts down before.
        ABANDONED.incrementAndGet();
        if (!state.compareAndSet(State.CALLING, State.ABANDONED)) {
          ABANDONED.decrementAndGet();
        }
      }
    }
    Throwable thrown = failure.get();
    if (thrown instanceof Ep4jException known) {
      throw known;
    }
    if (thrown != null) {
      throw new IllegalStateException(name + " cannot be called", thrown);
    }
    return result[0];
  }

  /** Number of threads of this process that were abandoned and have not returned. */
  public static int abandoned() {
    return ABANDONED.get();
  }

  /**
   * The lost rank that a call waits for, and the reason; empty if none is lost.
   *
   * @param name name of the native function
   */
  public static String lost(Participants participants, String name) {
    Group group = participants.group();
    for (int i = 0; i < group.size(); i++) {
      if (!group.isAlive(i)) {
        return "rank %d is gone while %s waits for it: %s"
            .formatted(participants.number(i), name, group.deathReport(i));
      }
    }
    return "";
  }

  private static void await(Participants participants, String name, Duration limit, Thread caller) {
    long deadline = System.nanoTime() + limit.toNanos();
    try {
      while (!caller.join(Duration.ofMillis(LOOK_MILLIS))) {
        String lost = lost(participants, name);
        if (!lost.isEmpty()) {
          throw new Ep4jException(ErrorCode.LIBRARY_CALL_RANK_LOST, lost);
        }
        if (System.nanoTime() - deadline > 0) {
          throw new Ep4jException(
              ErrorCode.LIBRARY_CALL_STUCK,
              name
                  + " has not ended within "
                  + limit.toSeconds()
                  + " s: check that all ranks call it and can reach each other");
        }
      }
    } catch (InterruptedException e) {
      Thread.currentThread().interrupt();
      throw new Ep4jException(
          ErrorCode.GROUP_INTERRUPTED, "interrupted while " + name + " waits for other ranks", e);
    }
  }
}
