package org.ep4j.conformance.world;

import java.time.Duration;
import java.util.concurrent.Future;
import java.util.concurrent.ScheduledThreadPoolExecutor;
import java.util.concurrent.TimeUnit;
import java.util.function.Consumer;
import java.util.function.Supplier;

/**
 * Reports the position of a slow case, so that a hang can be distinguished from slowness: after ten
 * seconds, then each time its duration has doubled, and at its end. Silent otherwise.
 */
public final class CaseWatchdog implements AutoCloseable {
  /** In every line about an unfinished case; {@link RankProcesses} forwards these lines. */
  static final String STILL = " still runs after ";

  /** In the line about the end of a reported case. */
  static final String ENDED = " ended after ";

  private static final Duration TIMEOUT = Duration.ofSeconds(10);

  private static final ScheduledThreadPoolExecutor TIMER = timer();

  private final String what;
  private final Supplier<String> place;
  private final Consumer<String> out;
  private final long start = System.nanoTime();
  private Future<?> next;
  private boolean reported;
  private boolean closed;

  /**
   * Begins to watch.
   *
   * @param what the case, and how to repeat it
   * @param place current position of the case; called by another thread
   */
  public CaseWatchdog(String what, Supplier<String> place) {
    this(what, place, TIMEOUT, System.out::println);
  }

  public CaseWatchdog(String what, Supplier<String> place, Duration timeout, Consumer<String> out) {
    this.what = what;
    this.place = place;
    this.out = out;
    synchronized (this) {
      next = TIMER.schedule(this::report, timeout.toNanos(), TimeUnit.NANOSECONDS);
    }
  }

  private static ScheduledThreadPoolExecutor timer() {
    ScheduledThreadPoolExecutor timer =
        new ScheduledThreadPoolExecutor(
            1, task -> Thread.ofPlatform().daemon().name("ep4j-case-watch").unstarted(task));
    timer.setRemoveOnCancelPolicy(true);
    return timer;
  }

  private synchronized void report() {
    if (closed) {
      return;
    }
    reported = true;
    long passed = System.nanoTime() - start;
    out.accept(what + STILL + passed / 1_000_000_000 + " s: " + place.get());
    next = TIMER.schedule(this::report, passed, TimeUnit.NANOSECONDS);
  }

  @Override
  public synchronized void close() {
    closed = true;
    next.cancel(false);
    if (reported) {
      out.accept(what + ENDED + (System.nanoTime() - start) / 1_000_000_000 + " s");
    }
  }
}
