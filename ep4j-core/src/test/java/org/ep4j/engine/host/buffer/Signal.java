package org.ep4j.engine.host.buffer;

import java.time.Duration;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import org.ep4j.execution.Event;

/** An event that a test completes. */
public final class Signal implements Event {
  private final CountDownLatch happened = new CountDownLatch(1);

  /** Completes the event. */
  public void happen() {
    happened.countDown();
  }

  @Override
  public boolean isDone() {
    return happened.getCount() == 0;
  }

  @Override
  public void await() {
    await(Duration.ofSeconds(60));
  }

  @Override
  public boolean await(Duration timeout) {
    try {
      return happened.await(timeout.toNanos(), TimeUnit.NANOSECONDS);
    } catch (InterruptedException e) {
      throw new AssertionError(e);
    }
  }
}
