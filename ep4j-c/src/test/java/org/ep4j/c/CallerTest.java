package org.ep4j.c;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import java.time.Duration;
import org.ep4j.error.InvalidArgumentException;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;

/** An interrupt belongs to one call. */
class CallerTest {
  private static final int CALLS = 2_000_000;
  private static final Duration LIMIT = Duration.ofMinutes(1);

  private final Caller caller = new Caller(Thread.currentThread());

  @AfterEach
  void leaveNoFlag() {
    boolean ignored = Thread.interrupted();
  }

  @Test
  void interruptSetsTheFlagDuringTheCallOnly() {
    caller.begin();
    caller.interrupt();
    assertThat(Thread.currentThread().isInterrupted()).isTrue();
    caller.leave();
    assertThat(Thread.currentThread().isInterrupted()).isFalse();
  }

  @Test
  void secondInterruptSetsAFlagThatTheCallHasCleared() {
    caller.begin();
    caller.interrupt();
    assertThat(Thread.interrupted()).isTrue();
    caller.interrupt();
    assertThat(Thread.currentThread().isInterrupted()).isTrue();
    caller.leave();
    assertThat(Thread.currentThread().isInterrupted()).isFalse();
  }

  @Test
  void interruptBetweenCallsHasNoEffect() {
    caller.interrupt();
    caller.begin();
    caller.leave();
    caller.interrupt();
    assertThat(Thread.currentThread().isInterrupted()).isFalse();
    caller.begin();
    assertThat(Thread.currentThread().isInterrupted()).isFalse();
    caller.leave();
  }

  @Test
  void flagOfTheProgramOutlivesTheCall() {
    caller.begin();
    Thread.currentThread().interrupt();
    caller.leave();
    assertThat(Thread.currentThread().isInterrupted()).isTrue();
  }

  /** The flag is clear after each call, whenever the interrupts of another thread arrive. */
  @Test
  void noInterruptReachesTheTimeAfterACall() throws InterruptedException {
    boolean[] ended = new boolean[1];
    Thread interrupter =
        new Thread(
            () -> {
              while (!hasEnded(ended)) {
                caller.interrupt();
              }
            });
    interrupter.start();
    int hit = 0;
    int late = 0;
    // On a loaded machine the other thread may start after all of these calls.
    long end = System.nanoTime() + LIMIT.toNanos();
    for (int i = 0; i < CALLS || (hit == 0 && System.nanoTime() - end < 0); i++) {
      caller.begin();
      hit += Thread.currentThread().isInterrupted() ? 1 : 0;
      caller.leave();
      late += Thread.interrupted() ? 1 : 0;
    }
    synchronized (ended) {
      ended[0] = true;
    }
    interrupter.join();
    assertThat(late).isZero();
    assertThat(hit).isPositive();
  }

  private static boolean hasEnded(boolean[] ended) {
    synchronized (ended) {
      return ended[0];
    }
  }

  @Test
  void callersOfEndedThreadsAreForgotten() throws InterruptedException {
    CallerTable table = new CallerTable();
    Thread thread = new Thread(() -> {});
    thread.start();
    long gone = table.add(new Caller(thread));
    thread.join();
    table.interrupt(gone);
    long present = table.add(caller);
    assertThat(table.size()).isEqualTo(1);
    table.interrupt(gone);
    caller.begin();
    table.interrupt(present);
    assertThat(Thread.currentThread().isInterrupted()).isTrue();
    caller.leave();
  }

  @Test
  void numberThatNoCallerHadIsRefused() {
    CallerTable table = new CallerTable();
    long number = table.add(caller);
    for (long foreign : new long[] {0, -1, number + 1}) {
      assertThatThrownBy(() -> table.interrupt(foreign))
          .isInstanceOf(InvalidArgumentException.class)
          .hasMessageContaining("EP4J-1040");
    }
  }
}
