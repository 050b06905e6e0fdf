package org.ep4j.cuda.engine;

import static org.assertj.core.api.Assertions.assertThat;

import java.time.Duration;
import java.util.concurrent.atomic.AtomicInteger;
import org.junit.jupiter.api.Test;

class LateNewsTest {
  private static final Duration LONG = Duration.ofMinutes(5);

  @Test
  void whatIsKnownIsNotWaitedFor() {
    AtomicInteger asked = new AtomicInteger();
    LateNews.await(() -> asked.incrementAndGet() == 1, LONG);
    assertThat(asked).hasValue(1);
  }

  @Test
  void whatComesLateIsHeard() {
    AtomicInteger asked = new AtomicInteger();
    LateNews.await(() -> asked.incrementAndGet() == 5, LONG);
    assertThat(asked).hasValue(5);
  }

  @Test
  void silenceEndsTheWait() {
    AtomicInteger asked = new AtomicInteger();
    LateNews.await(() -> asked.incrementAndGet() < 0, Duration.ofMillis(20));
    assertThat(asked).hasPositiveValue();
  }

  @Test
  void anInterruptedThreadListensAndStaysInterrupted() {
    Thread.currentThread().interrupt();
    AtomicInteger asked = new AtomicInteger();
    LateNews.await(() -> asked.incrementAndGet() == 5, LONG);
    assertThat(Thread.interrupted()).isTrue();
    assertThat(asked).hasValue(5);
  }
}
