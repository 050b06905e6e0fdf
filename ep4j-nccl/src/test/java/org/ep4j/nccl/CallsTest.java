package org.ep4j.nccl;

import static org.assertj.core.api.Assertions.assertThat;

import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.atomic.AtomicLong;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

@Timeout(60)
class CallsTest {
  private static final int ROUNDS = 2_000;

  @Test
  void aRunningCallIsVisibleUntilItReturns() {
    Calls calls = new Calls();
    assertThat(calls.begin()).isTrue();
    calls.stop();
    assertThat(calls.inside()).isTrue();
    calls.end();
    assertThat(calls.inside()).isFalse();
    assertThat(calls.begin()).isFalse();
    assertThat(calls.inside()).isFalse();
  }

  @Test
  void noCallRunsAfterStopHasSeenTheLastReturn() throws InterruptedException {
    AtomicLong made = new AtomicLong();
    for (int round = 0; round < ROUNDS; round++) {
      Calls calls = new Calls();
      AtomicBoolean over = new AtomicBoolean();
      AtomicBoolean late = new AtomicBoolean();
      Thread caller =
          Thread.ofPlatform()
              .start(
                  () -> {
                    while (calls.begin()) {
                      late.set(late.get() || over.get());
                      made.incrementAndGet();
                      calls.end();
                    }
                  });
      calls.stop();
      while (calls.inside()) {
        Thread.onSpinWait();
      }
      over.set(true);
      caller.join();
      assertThat(late).as("a call in round " + round).isFalse();
    }
    assertThat(made.get()).isPositive();
  }
}
