package org.ep4j.engine.host;

import java.time.Duration;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.ThreadFactory;
import org.ep4j.Ep4jException;
import org.ep4j.Event;
import org.jspecify.annotations.Nullable;

/**
 * The buffer's own thread for asynchronous operations, started on first use. Operations run in the
 * order of the calls: a synchronous one waits until the queue is empty and then runs on its caller.
 * Used by one thread at a time.
 */
final class OperationQueue implements AutoCloseable {
  private final ThreadFactory threads;
  private final Duration timeout;
  private @Nullable ExecutorService thread;
  private @Nullable HostEvent last;

  OperationQueue(String name, Duration timeout) {
    this(task -> Thread.ofPlatform().daemon().name(name).unstarted(task), timeout);
  }

  OperationQueue(ThreadFactory threads, Duration timeout) {
    this.threads = threads;
    this.timeout = timeout;
  }

  /** Runs {@code operation} after all earlier ones. */
  Event submit(Runnable operation) {
    ExecutorService executor = thread;
    if (executor == null) {
      executor = Executors.newSingleThreadExecutor(threads);
      thread = executor;
    }
    HostEvent event = new HostEvent(operation);
    // In this order: where no thread can be had, nobody waits for what never runs.
    executor.execute(event);
    last = event;
    return event;
  }

  /** Waits until nothing is queued; errors of what was queued belong to its events. */
  void drain() {
    HostEvent event = last;
    if (event != null) {
      event.awaitEnd();
      last = null;
    }
  }

  /** Waits for an event that an operation is to follow. */
  void awaitPrevious(@Nullable Event previous, String operation) {
    if (previous != null && !previous.await(timeout)) {
      throw new Ep4jException(
          operation
              + ": previousEvent has not happened after "
              + timeout.toMillis()
              + " ms; nothing was sent");
    }
  }

  /** Also for an interrupted thread: what is queued works on memory that the caller may free. */
  @Override
  public void close() {
    HostEvent event = last;
    if (event != null) {
      event.awaitEndThoughInterrupted();
    }
    ExecutorService executor = thread;
    if (executor != null) {
      executor.shutdown();
    }
  }
}
