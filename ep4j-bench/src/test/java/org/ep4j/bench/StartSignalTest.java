package org.ep4j.bench;

import static org.assertj.core.api.Assertions.assertThat;

import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.Test;

class StartSignalTest {
  private static final long NOW = TimeUnit.DAYS.toNanos(2);

  @Test
  void ranksOfAHostStartTogether() {
    long latest = NOW - 10_000;

    assertThat(StartSignal.time(latest, NOW)).isEqualTo(StartSignal.time(latest, NOW + 90_000));
  }

  /** Each host counts from its own start. */
  @Test
  void noRankWaitsForTheClockOfAnotherHost() {
    assertThat(StartSignal.time(TimeUnit.DAYS.toNanos(30), NOW) - NOW)
        .isBetween(0L, TimeUnit.MILLISECONDS.toNanos(1));
  }
}
