package org.ep4j.engine.host.exec;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.Random;
import java.util.concurrent.CountDownLatch;
import org.jspecify.annotations.Nullable;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

@Timeout(value = 30, threadMode = Timeout.ThreadMode.SEPARATE_THREAD)
class WorkQueueTest {
  private static final int CAPACITY = 8;

  /** Numbers of the units that have run. */
  private final List<Integer> log = Collections.synchronizedList(new ArrayList<>());

  private final class Numbered extends WorkQueue.Unit {
    int number;
    int times;
    @Nullable CountDownLatch latch;

    @Override
    public void run(int worker) {
      CountDownLatch until = latch;
      if (until != null) {
        try {
          until.await();
        } catch (InterruptedException e) {
          throw new IllegalStateException(e);
        }
      }
      times++;
      log.add(number);
      if (number < 0) {
        throw new IllegalStateException("unit " + number);
      }
    }
  }

  private Numbered unit(int number) {
    Numbered unit = new Numbered();
    unit.number = number;
    return unit;
  }

  @ParameterizedTest
  @ValueSource(ints = {1, 2, 3, 5})
  void everyUnitIsDoneOnceAndItsWritesAreSeen(int size) {
    long seed = Long.getLong("ep4j.seed", 1);
    System.out.printf("WorkQueueTest, %d workers: -Dep4j.seed=%d%n", size, seed);
    Random random = new Random(seed);
    try (WorkerTeam team = new WorkerTeam("team", size)) {
      WorkQueue work = new WorkQueue(team, (_, _) -> Thread.yield(), CAPACITY, CAPACITY);
      Numbered[] units = new Numbered[CAPACITY];
      for (int i = 0; i < units.length; i++) {
        units[i] = new Numbered();
      }
      for (int round = 0; round < 20; round++) {
        log.clear();
        int count = random.nextInt(200);
        int given = 0;
        int done = 0;
        work.open();
        while (done < count) {
          while (done < given && units[done % CAPACITY].done()) {
            assertThat(units[done % CAPACITY].times).isEqualTo(1);
            done++;
          }
          while (given < count && given - done < CAPACITY) {
            Numbered unit = units[given % CAPACITY];
            unit.number = given++;
            unit.times = 0;
            if (random.nextBoolean()) {
              work.give(unit);
            } else {
              work.giveUrgent(unit);
            }
          }
          work.help();
        }
        // A unit's effects are visible shortly before the unit counts as finished.
        while (work.busy()) {
          Thread.onSpinWait();
        }
        work.close();
        assertThat(log).hasSize(count).doesNotHaveDuplicates();
      }
    }
  }

  @Test
  void urgentUnitsRunFirstAndEachKindInItsOrder() {
    try (WorkerTeam team = new WorkerTeam("team", 1)) {
      WorkQueue work = new WorkQueue(team, (_, _) -> Thread.yield(), CAPACITY, CAPACITY);
      work.open();
      work.give(unit(3));
      work.give(unit(4));
      work.giveUrgent(unit(1));
      work.giveUrgent(unit(2));
      while (work.help()) {
        assertThat(log).isNotEmpty();
      }
      assertThat(work.busy()).isFalse();
      work.close();
      assertThat(log).containsExactly(1, 2, 3, 4);
    }
  }

  @Test
  void manyHelpersLetTheCallerGo() {
    try (WorkerTeam team = new WorkerTeam("team", 3)) {
      WorkQueue work = new WorkQueue(team, (_, _) -> Thread.yield(), CAPACITY, CAPACITY);
      work.open();
      CountDownLatch latch = new CountDownLatch(1);
      for (int i = 0; i < 4; i++) {
        Numbered unit = unit(i);
        unit.latch = latch;
        work.give(unit);
      }
      assertThat(work.help()).isFalse();
      assertThat(work.busy()).isTrue();
      latch.countDown();
      while (work.busy()) {
        Thread.onSpinWait();
      }
      work.close();
      assertThat(log).hasSize(4);
    }
  }

  @ParameterizedTest
  @ValueSource(ints = {1, 2, 4})
  void whatAUnitThrowsEndsTheOperationAndNotTheNext(int size) {
    try (WorkerTeam team = new WorkerTeam("team", size)) {
      WorkQueue work = new WorkQueue(team, (_, _) -> Thread.yield(), CAPACITY, CAPACITY);
      for (int round = 0; round < 3; round++) {
        work.open();
        assertThatThrownBy(
                () -> {
                  work.give(unit(1));
                  work.give(unit(-7));
                  work.give(unit(2));
                  while (work.busy()) {
                    work.help();
                  }
                })
            .hasMessage("unit -7");
        work.abandon();
        log.clear();
        work.open();
        Numbered last = unit(5);
        work.give(last);
        while (work.busy()) {
          work.help();
        }
        work.close();
        assertThat(last.done()).isTrue();
        assertThat(log).containsExactly(5);
      }
    }
  }

  @Test
  void nothingIsDoneAfterAnOperationIsAbandoned() {
    try (WorkerTeam team = new WorkerTeam("team", 2)) {
      WorkQueue work = new WorkQueue(team, (_, _) -> Thread.yield(), CAPACITY, CAPACITY);
      work.open();
      for (int i = 0; i < CAPACITY; i++) {
        work.give(unit(i));
      }
      work.abandon();
      int done = log.size();
      Thread.yield();
      assertThat(log).hasSize(done);
      work.open();
      assertThat(work.busy()).isFalse();
      work.close();
      assertThat(log).hasSize(done);
    }
  }

  @Test
  void moreUnitsThanFitAreRefused() {
    try (WorkerTeam team = new WorkerTeam("team", 1)) {
      WorkQueue work = new WorkQueue(team, (_, _) -> Thread.yield(), 1, 2);
      work.open();
      work.give(unit(1));
      work.give(unit(2));
      assertThatThrownBy(() -> work.give(unit(3))).hasMessageContaining("2 units");
      work.abandon();
    }
  }
}
