package org.ep4j.micrometer;

import static org.assertj.core.api.Assertions.assertThat;

import java.util.Arrays;
import java.util.Random;
import java.util.stream.IntStream;
import org.ep4j.observe.ObservationLog;
import org.junit.jupiter.api.Test;

class ExpertSeriesTest {
  private static final int EXPERTS = 12;

  private final ObservationLog log =
      new ObservationLog(0, 2, IntStream.range(0, EXPERTS).map(i -> 2 * i).toArray());

  private static int own(ExpertSeries series) {
    boolean[] own = series.own();
    return (int) IntStream.range(0, EXPERTS).filter(i -> own[i]).count();
  }

  @Test
  void everyTokenIsInOneCounterAndNoCounterFalls() {
    long seed = Long.getLong("ep4j.seed", 1);
    Random random = new Random(seed);
    ExpertSeries series = new ExpertSeries(log.snapshot(), 3);
    long sent = 0;
    long increases = 0;
    int changes = 0;
    for (int step = 0; step < 2000; step++) {
      boolean[] before = series.own();
      long[] counted = series.counted();
      long rest = series.rest();
      // The hot expert moves, so that counters change hands.
      int hot = step / 500 * 3;
      for (int i = 0; i < 4; i++) {
        int tokens = random.nextInt(10);
        log.expert(random.nextInt(3) == 0 ? hot : random.nextInt(EXPERTS), tokens);
        sent += tokens;
      }
      series.update(log.snapshot());

      boolean[] after = series.own();
      assertThat(own(series)).as("seed %d", seed).isEqualTo(3);
      assertThat(series.rest()).isGreaterThanOrEqualTo(rest);
      increases += series.rest() - rest;
      for (int i = 0; i < EXPERTS; i++) {
        increases += before[i] ? series.counted()[i] - counted[i] : 0;
        if (before[i] && after[i]) {
          assertThat(series.counted()[i]).isGreaterThanOrEqualTo(counted[i]);
        } else if (after[i]) {
          assertThat(series.counted()[i]).isZero();
        }
      }
      changes += Arrays.equals(before, after) ? 0 : 1;
    }
    assertThat(changes).as("seed %d", seed).isBetween(2, 200);
    assertThat(increases).as("seed %d", seed).isEqualTo(sent).isPositive();
  }

  @Test
  void theSumIsTheNumberOfTokensWhileNoCounterChangesHands() {
    for (int i = 0; i < EXPERTS; i++) {
      log.expert(i, 100 - i);
    }
    ExpertSeries series = new ExpertSeries(log.snapshot(), 4);
    log.expert(1, 7);
    log.expert(11, 5);
    series.update(log.snapshot());

    assertThat(series.counted()).startsWith(100, 106, 98, 97).endsWith(0, 0);
    long rest = IntStream.range(4, EXPERTS).mapToLong(i -> 100 - i).sum() + 5;
    assertThat(series.rest()).isEqualTo(rest);
  }

  @Test
  void aBusierExpertTakesTheCounterOfTheColdest() {
    for (int i = 0; i < EXPERTS; i++) {
      log.expert(i, i < 2 ? 100 : 80);
    }
    ExpertSeries series = new ExpertSeries(log.snapshot(), 2);
    log.expert(7, 40);
    series.update(log.snapshot());
    assertThat(series.own()[7]).as("120 do not exceed 100 by a quarter").isFalse();
    log.expert(7, 40);
    long rest = series.rest();
    series.update(log.snapshot());
    assertThat(series.own()[7]).isTrue();
    assertThat(own(series)).isEqualTo(2);
    assertThat(series.rest()).as("tokens before the counter").isEqualTo(rest + 40);
    log.expert(7, 3);
    series.update(log.snapshot());
    assertThat(series.counted()[7]).isEqualTo(3);
  }

  @Test
  void withFewExpertsAllHaveACounter() {
    ExpertSeries series = new ExpertSeries(log.snapshot(), EXPERTS + 1);
    log.expert(3, 9);
    series.update(log.snapshot());

    assertThat(series.complete()).isTrue();
    assertThat(series.counted()[3]).isEqualTo(9);
    assertThat(series.rest()).isZero();
  }
}
