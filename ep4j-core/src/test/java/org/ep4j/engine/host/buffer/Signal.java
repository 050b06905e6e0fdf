package org.ep4j.engine.host.buffer;

import java.time.Duration;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import org.ep4j.execution.Event;

/** An event that a test completes. */
public final class Signal implements Event {
  private static final Duration LIMIT = Duration.ofSeconds(60);

  private final CountDownLatch awaited = new CountDownLatch(1);
  private final CountDownLatch happened = new CountDownLatch(1);

  /** Completes the event. */
  public void happen() {
    happened.countDown();
  }

  /** Returns when an operation waits for the event. */
  public void awaitWaiter() throws InterruptedException {
    if (!awaited.await(LIMIT.toNanos(), TimeUnit.NANOSECONDS)) {
      throw new AssertionError("no operation waits for the event");
    }
  }

  @Override
  public boolean isDone() {
    return happened.getCount() == 0;
  }

  @Override
  public void await() {
    await(LIMIT);
  }

  @Override
  public boolean await(Duration timeout) {
    awaited.countDown();
    try {
      return happened.await(timeout.toNanos(), TimeUnit.NANOSECONDS);
    } catch (InterruptedException e) {
      throw new AssertionError(e);
    }
  }
}
