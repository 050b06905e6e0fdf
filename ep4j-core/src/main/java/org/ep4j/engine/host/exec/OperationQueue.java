package org.ep4j.engine.host.exec;

import java.time.Duration;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.ThreadFactory;
import org.ep4j.error.Ep4jException;
import org.ep4j.error.ErrorCode;
import org.ep4j.execution.Event;
import org.jspecify.annotations.Nullable;

/**
 * The buffer's own thread for asynchronous operations, started on first use. Operations run in the
 * order of the calls: a synchronous operation waits until the queue is empty and then runs on its
 * caller. Used by one thread at a time.
 */
public final class OperationQueue implements AutoCloseable {
  private final ThreadFactory threads;
  private final Duration timeout;
  private @Nullable ExecutorService thread;

  /** The thread itself; null before the first operation. Made by the caller of {@link #submit}. */
  private @Nullable Thread runner;

  private @Nullable HostEvent last;

  public OperationQueue(String name, Duration timeout) {
    this(task -> Thread.ofPlatform().daemon().name(name).unstarted(task), timeout);
  }

  public OperationQueue(ThreadFactory threads, Duration timeout) {
    this.threads = threads;
    this.timeout = timeout;
  }

  /** Runs {@code operation} after all earlier ones. */
  public Event submit(Runnable operation) {
    ExecutorService executor = thread;
    if (executor == null) {
      executor = Executors.newSingleThreadExecutor(this::newRunner);
      thread = executor;
    }
    HostEvent event = new HostEvent(operation);
    // In this order: if no thread can start, no caller waits for an event that never runs.
    executor.execute(event);
    last = event;
    return event;
  }

  private Thread newRunner(Runnable task) {
    Thread made = threads.newThread(task);
    runner = made;
    return made;
  }

  /** Waits until the queue is empty; events report the errors of their operations. */
  public void drain() {
    HostEvent event = last;
    if (event != null) {
      event.awaitEnd();
      last = null;
    }
  }

  /** Waits for the event that an operation depends on. */
  public void awaitPrevious(@Nullable Event previous, String operation) {
    if (previous != null && !previous.await(timeout)) {
      throw new Ep4jException(
          ErrorCode.PREVIOUS_EVENT_LATE,
          operation
              + ": previousEvent has not completed after "
              + timeout.toMillis()
              + " ms; nothing was sent");
    }
  }

  /**
   * Waits for queued operations, which use memory that the caller may free. An interrupt ends their
   * waits for peers.
   */
  @Override
  public void close() {
    HostEvent event = last;
    Thread running = runner;
    if (event != null && running != null) {
      event.awaitEndThoughInterrupted(running);
    }
    ExecutorService executor = thread;
    if (executor != null) {
      executor.shutdown();
    }
  }
}
