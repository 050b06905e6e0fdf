package org.ep4j.cuda.engine.failure;

import static org.assertj.core.api.Assertions.assertThat;

import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import org.ep4j.cuda.struct.Control;
import org.ep4j.error.Ep4jException;
import org.ep4j.error.ErrorCode;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

@Timeout(value = 30, threadMode = Timeout.ThreadMode.SEPARATE_THREAD)
class StaleRankFenceTest {
  private static final int OWN = 1;
  private static final int LOST = 2;
  private static final int RANKS = 3;
  private static final long REGION = 4096;
  private static final long FENCED_BY = LOST * REGION + Control.WORDS.fencedBy.offset();
  private static final long RUNNING = LOST * REGION + Control.WORDS.running.offset();

  private final Map<Long, Long> memory = new HashMap<>();
  private final Set<Integer> dead = new HashSet<>(Set.of(LOST));
  private final List<Integer> gone = new ArrayList<>();
  private final long[] regions = {0, REGION, LOST * REGION};
  private long now = 1_000_000;
  private boolean unmapped;
  private boolean closed;

  private final StaleRankFence fence =
      new StaleRankFence(
          new Memory(), OWN, RANKS, r -> regions[r], r -> !dead.contains(r), gone::add, () -> now);

  private final class Memory implements StaleRankFence.Words {
    @Override
    public long read(long address) {
      assertThat(closed).isFalse();
      return memory.getOrDefault(address, 0L);
    }

    @Override
    public void write(long address, long value) {
      if (unmapped) {
        throw new Ep4jException(ErrorCode.GPU_FAILED, "cannot be written");
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
    fence.close();
  }

  private void pass(Duration time) {
    now += time.toNanos() + 1;
  }

  /** Repeats the step with pauses. */
  private void fenceStep(int times) {
    fence.fenceStep(LOST);
    for (int i = 0; i < times; i++) {
      pass(StaleRankFence.GRACE);
      fence.fenceStep(LOST);
    }
  }

  @Test
  void fencedRankLearnsWhoFencedIt() {
    fenceStep(1);
    assertThat(memory).containsOnly(Map.entry(FENCED_BY, OWN + 1L));
    assertThat(gone).isEmpty();
  }

  @Test
  void lossCountsOnlyAfterTheGracePeriod() {
    fence.fenceStep(LOST);
    fence.fenceStep(LOST);
    assertThat(memory).isEmpty();
  }

  @Test
  void idleRankIsFencedOnceItsLastStoresHaveArrived() {
    fenceStep(2);
    assertThat(gone).as("seen idle").isEmpty();
    fence.fenceStep(LOST);
    assertThat(gone).as("immediately").isEmpty();
    pass(StaleRankFence.GRACE);
    fence.fenceStep(LOST);
    assertThat(gone).containsExactly(LOST);
    fenceStep(3);
    assertThat(gone).as("notified once").containsExactly(LOST);
  }

  @Test
  void runningIsReadOnlyAfterTheGracePeriod() {
    fenceStep(1);
    fence.fenceStep(LOST);
    memory.put(RUNNING, 1L);
    fenceStep(3);
    assertThat(gone).isEmpty();
  }

  @Test
  void runningKernelIsAwaited() {
    memory.put(RUNNING, 1L);
    fenceStep(10);
    assertThat(gone).isEmpty();
    memory.put(RUNNING, 0L);
    fenceStep(2);
    assertThat(gone).containsExactly(LOST);
  }

  @Test
  void kernelOfAKilledProcessIsAwaitedForABoundedTime() {
    memory.put(RUNNING, 1L);
    fenceStep(1);
    pass(StaleRankFence.MAX_WAIT);
    fenceStep(2);
    assertThat(gone).containsExactly(LOST);
  }

  @Test
  void rankFencedByAnotherIsNotFencedAgain() {
    memory.put(FENCED_BY, 1L);
    fenceStep(3);
    assertThat(memory).containsEntry(FENCED_BY, 1L);
    assertThat(gone).containsExactly(LOST);
  }

  @Test
  void unreachableRankNeedsNoFence() {
    regions[LOST] = 0;
    fence.fenceStep(LOST);
    assertThat(gone).containsExactly(LOST);
    assertThat(memory).isEmpty();
  }

  @Test
  void rankThatCannotBeNotifiedBlocksNoOther() {
    unmapped = true;
    fenceStep(1);
    assertThat(gone).containsExactly(LOST);
  }

  @Test
  void liveRankIsNotFenced() {
    fenceStep(0);
    dead.clear(); // another process has replaced it
    fenceStep(5);
    assertThat(memory).isEmpty();
    assertThat(gone).isEmpty();
  }

  @Test
  void aReplacementProcessCanBeLostAgain() {
    fenceStep(3);
    regions[LOST] = 8 * REGION;
    fence.admit(LOST);
    fenceStep(3);
    assertThat(memory).containsKey(8 * REGION + Control.WORDS.fencedBy.offset());
    assertThat(gone).containsExactly(LOST, LOST);
  }

  @Test
  void fencedRankFencesNoOther() {
    memory.put(OWN * REGION + Control.WORDS.fencedBy.offset(), 1L);
    fenceStep(5);
    assertThat(memory).doesNotContainKey(FENCED_BY);
    assertThat(gone).isEmpty();
    assertThat(fence.fence(only(LOST))).isFalse();
  }

  @Test
  void rankLostToTheGroupFencesNoOther() {
    dead.add(OWN);
    fenceStep(5);
    assertThat(memory).isEmpty();
    assertThat(gone).isEmpty();
    assertThat(fence.fence(only(LOST))).isFalse();
  }

  @Test
  void waitingFencesEnd() {
    memory.put(RUNNING, 1L);
    try (StaleRankFence waiting =
        new StaleRankFence(
            new Memory(), OWN, RANKS, r -> regions[r], r -> true, gone::add, System::nanoTime)) {
      long start = System.nanoTime();
      assertThat(waiting.fence(only(LOST))).isTrue();
      assertThat(System.nanoTime() - start)
          .isLessThan(StaleRankFence.MAX_DURATION.multipliedBy(4).toNanos());
    }
    assertThat(memory).containsEntry(FENCED_BY, OWN + 1L);
    assertThat(gone).containsExactly(LOST);
  }

  private static boolean[] only(int rank) {
    boolean[] lost = new boolean[RANKS];
    Arrays.fill(lost, rank, rank + 1, true);
    return lost;
  }

  @Test
  void fencedRankObservesIt() {
    assertThat(fence.by()).isEqualTo(StaleRankFence.NO_RANK);
    memory.put(OWN * REGION + Control.WORDS.fencedBy.offset(), 1L);
    assertThat(fence.by()).isZero();
  }

  @Test
  void closedFenceReadsNothing() {
    fence.close();
    fenceStep(5);
    assertThat(fence.by()).isEqualTo(StaleRankFence.NO_RANK);
    assertThat(gone).isEmpty();
  }
}
