package org.ep4j.cuda.engine;

import static org.assertj.core.api.Assertions.assertThat;

import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import org.ep4j.Ep4jException;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

@Timeout(value = 30, threadMode = Timeout.ThreadMode.SEPARATE_THREAD)
class EvictionTest {
  private static final int OWN = 1;
  private static final int LOST = 2;
  private static final int RANKS = 3;
  private static final long REGION = 4096;
  private static final long EVICTED = LOST * REGION + ControlField.EVICTED.offset();
  private static final long RUNNING = LOST * REGION + ControlField.RUNNING.offset();

  private final Map<Long, Long> memory = new HashMap<>();
  private final Set<Integer> dead = new HashSet<>(Set.of(LOST));
  private final List<Integer> gone = new ArrayList<>();
  private final long[] regions = {0, REGION, LOST * REGION};
  private long now = 1_000_000;
  private boolean unmapped;
  private boolean closed;

  private final Eviction eviction =
      new Eviction(
          new Memory(), OWN, RANKS, r -> regions[r], r -> !dead.contains(r), gone::add, () -> now);

  private final class Memory implements Eviction.Words {
    @Override
    public long read(long address) {
      assertThat(closed).isFalse();
      return memory.getOrDefault(address, 0L);
    }

    @Override
    public void write(long address, long value) {
      if (unmapped) {
        throw new Ep4jException("cannot be written");
      }
      memory.put(address, value);
    }

    @Override
    public void close() {
      closed = true;
    }
  }

  @AfterEach
  void close() {
    eviction.close();
  }

  private void pass(Duration time) {
    now += time.toNanos() + 1;
  }

  /** Once, and again after some time, so often. */
  private void proceed(int times) {
    eviction.proceed(LOST);
    for (int i = 0; i < times; i++) {
      pass(Eviction.GRACE);
      eviction.proceed(LOST);
    }
  }

  @Test
  void theLostRankIsToldByWhom() {
    proceed(1);
    assertThat(memory).containsOnly(Map.entry(EVICTED, OWN + 1L));
    assertThat(gone).isEmpty();
  }

  @Test
  void aLossIsBelievedOnlyAfterAWhile() {
    eviction.proceed(LOST);
    eviction.proceed(LOST);
    assertThat(memory).isEmpty();
  }

  @Test
  void anIdleRankIsOutOnceItsLastStoresHaveArrived() {
    proceed(2);
    assertThat(gone).as("seen idle").isEmpty();
    eviction.proceed(LOST);
    assertThat(gone).as("at once").isEmpty();
    pass(Eviction.GRACE);
    eviction.proceed(LOST);
    assertThat(gone).containsExactly(LOST);
    proceed(3);
    assertThat(gone).as("told once").containsExactly(LOST);
  }

  @Test
  void whetherAKernelRunsIsAskedOnceItMustHaveSaidSo() {
    proceed(1);
    eviction.proceed(LOST);
    memory.put(RUNNING, 1L);
    proceed(3);
    assertThat(gone).isEmpty();
  }

  @Test
  void aKernelThatRunsIsWaitedFor() {
    memory.put(RUNNING, 1L);
    proceed(10);
    assertThat(gone).isEmpty();
    memory.put(RUNNING, 0L);
    proceed(2);
    assertThat(gone).containsExactly(LOST);
  }

  @Test
  void theKernelOfAProcessThatWasKilledIsNotWaitedForForEver() {
    memory.put(RUNNING, 1L);
    proceed(1);
    pass(Eviction.LONGEST);
    proceed(2);
    assertThat(gone).containsExactly(LOST);
  }

  @Test
  void whoWasToldByAnotherIsNotToldAgain() {
    memory.put(EVICTED, 1L);
    proceed(3);
    assertThat(memory).containsEntry(EVICTED, 1L);
    assertThat(gone).containsExactly(LOST);
  }

  @Test
  void aRankThatCannotBeReachedNeedsNoEviction() {
    regions[LOST] = 0;
    eviction.proceed(LOST);
    assertThat(gone).containsExactly(LOST);
    assertThat(memory).isEmpty();
  }

  @Test
  void aRankThatCannotBeToldHoldsNobodyUp() {
    unmapped = true;
    proceed(1);
    assertThat(gone).containsExactly(LOST);
  }

  @Test
  void whoLivesIsNotEvicted() {
    proceed(0);
    dead.clear(); // another process has taken its place
    proceed(5);
    assertThat(memory).isEmpty();
    assertThat(gone).isEmpty();
  }

  @Test
  void anotherProcessInItsPlaceCanBeLostAgain() {
    proceed(3);
    regions[LOST] = 8 * REGION;
    eviction.admit(LOST);
    proceed(3);
    assertThat(memory).containsKey(8 * REGION + ControlField.EVICTED.offset());
    assertThat(gone).containsExactly(LOST, LOST);
  }

  @Test
  void whoIsEvictedEvictsNobody() {
    memory.put(OWN * REGION + ControlField.EVICTED.offset(), 1L);
    proceed(5);
    assertThat(memory).doesNotContainKey(EVICTED);
    assertThat(gone).isEmpty();
    assertThat(eviction.evict(only(LOST))).isFalse();
  }

  @Test
  void whoIsOutOfTheGroupEvictsNobody() {
    dead.add(OWN);
    proceed(5);
    assertThat(memory).isEmpty();
    assertThat(gone).isEmpty();
    assertThat(eviction.evict(only(LOST))).isFalse();
  }

  @Test
  void evictionsThatWaitEnd() {
    memory.put(RUNNING, 1L);
    try (Eviction waiting =
        new Eviction(
            new Memory(), OWN, RANKS, r -> regions[r], r -> true, gone::add, System::nanoTime)) {
      long start = System.nanoTime();
      assertThat(waiting.evict(only(LOST))).isTrue();
      assertThat(System.nanoTime() - start).isLessThan(Eviction.MOST.multipliedBy(4).toNanos());
    }
    assertThat(memory).containsEntry(EVICTED, OWN + 1L);
    assertThat(gone).containsExactly(LOST);
  }

  private static boolean[] only(int rank) {
    boolean[] lost = new boolean[RANKS];
    Arrays.fill(lost, rank, rank + 1, true);
    return lost;
  }

  @Test
  void whoIsEvictedSeesIt() {
    assertThat(eviction.by()).isEqualTo(Eviction.NOBODY);
    memory.put(OWN * REGION + ControlField.EVICTED.offset(), 1L);
    assertThat(eviction.by()).isZero();
  }

  @Test
  void nothingIsReadOnceItIsClosed() {
    eviction.close();
    proceed(5);
    assertThat(eviction.by()).isEqualTo(Eviction.NOBODY);
    assertThat(gone).isEmpty();
  }
}
