package org.ep4j.wire;

import static org.assertj.core.api.Assertions.assertThatThrownBy;

import java.lang.reflect.Proxy;
import java.time.Duration;
import org.junit.jupiter.api.Test;

class WireWaitTest {
  private int polls;

  /** A wire on which other work moves all the time. */
  private final Wire busy =
      (Wire)
          Proxy.newProxyInstance(
              Wire.class.getClassLoader(),
              new Class<?>[] {Wire.class},
              (wire, method, arguments) -> 1);

  /** A wait without an end would be a test without one. */
  private boolean never() {
    return ++polls > 100_000;
  }

  @Test
  void aWaitEndsAtItsDeadlineWhileOtherWorkMoves() {
    WireWait wait = new WireWait(busy, 0, Duration.ofNanos(1));
    assertThatThrownBy(() -> wait.until(this::never, "a condition"))
        .isInstanceOf(WireTimeoutException.class)
        .hasMessageContaining("a condition");
  }

  @Test
  void anInterruptEndsAWaitWhileOtherWorkMoves() {
    WireWait wait = new WireWait(busy, 0, Duration.ofMinutes(1));
    Thread.currentThread().interrupt();
    try {
      assertThatThrownBy(() -> wait.until(this::never, "a condition"))
          .isInstanceOf(WireException.class)
          .hasMessageContaining("interrupted");
    } finally {
      Thread.interrupted();
    }
  }
}
