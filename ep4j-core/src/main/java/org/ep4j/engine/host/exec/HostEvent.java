package org.ep4j.engine.host.exec;

import java.time.Duration;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import org.ep4j.error.Ep4jException;
import org.ep4j.error.ErrorCode;
import org.ep4j.execution.Event;
import org.jspecify.annotations.Nullable;

/** An asynchronous operation and its completion. */
final class HostEvent implements Event, Runnable {
  /** Interval of the interrupts that end queued operations. */
  private static final long REPEAT_MILLIS = 10;

  private final Runnable body;
  private final CountDownLatch ended = new CountDownLatch(1);

  /** Written before {@link #ended} opens, read after it has opened. */
  private @Nullable Throwable failure;

  HostEvent(Runnable body) {
    this.body = body;
  }

  @Override
  public void run() {
    try {
      body.run();
    } catch (RuntimeException | Error e) {
      failure = e;
    } finally {
      ended.countDown();
    }
  }

  @Override
  public boolean isDone() {
    return ended.getCount() == 0;
  }

  @Override
  public void await() {
    awaitEnd();
    rethrow();
  }

  @Override
  public boolean await(Duration timeout) {
    boolean done;
    try {
      done = ended.await(TimeUnit.NANOSECONDS.convert(timeout), TimeUnit.NANOSECONDS);
    } catch (InterruptedException e) {
      throw interrupted(e);
    }
    if (done) {
      rethrow();
    }
    return done;
  }

  /**
   * Waits without throwing the exception of the operation; every operation has its own deadlines.
   */
  void awaitEnd() {
    try {
      ended.await();
    } catch (InterruptedException e) {
      throw interrupted(e);
    }
  }

  /**
   * The same for a thread that must not continue earlier; restores an interrupt afterwards.
   *
   * @param runner the thread of the operations: an interrupt of this one ends their waits too
   */
  void awaitEndThoughInterrupted(Thread runner) {
    boolean interrupted = false;
    boolean done = false;
    while (!done) {
      try {
        if (interrupted) {
          // Again and again: operations in front of this one wait as well.
          runner.interrupt();
          done = ended.await(REPEAT_MILLIS, TimeUnit.MILLISECONDS);
        } else {
          ended.await();
          done = true;
        }
      } catch (InterruptedException e) {
        interrupted = true;
      }
    }
    if (interrupted) {
      Thread.currentThread().interrupt();
    }
  }

  private void rethrow() {
    if (failure instanceof Error error) {
      throw error;
    }
    if (failure instanceof RuntimeException exception) {
      throw exception;
    }
  }

  private static Ep4jException interrupted(InterruptedException e) {
    Thread.currentThread().interrupt();
    return new Ep4jException(
        ErrorCode.EVENT_WAIT_INTERRUPTED,
        "interrupted while waiting for an asynchronous operation",
        e);
  }
}
