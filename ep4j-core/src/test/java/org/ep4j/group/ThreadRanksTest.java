package org.ep4j.group;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import java.time.Duration;
import java.util.Arrays;
import java.util.concurrent.CountDownLatch;
import org.ep4j.error.ErrorCode;
import org.junit.jupiter.api.Test;

class ThreadRanksTest {
  @Test
  void resultsAreInRankOrder() {
    assertThat(ThreadRanks.call(4, group -> group.rank() * group.rank()))
        .containsExactly(0, 1, 4, 9);
  }

  @Test
  void theFirstFailureIsThrownAndTheOthersFollowIt() {
    assertThatThrownBy(
            () ->
                ThreadRanks.run(
                    3,
                    group -> {
                      if (group.rank() == 1) {
                        throw new AssertionError("wrong bytes");
                      }
                      group.barrier(Duration.ofSeconds(20));
                    }))
        .isInstanceOfSatisfying(
            RankFailedException.class,
            e -> {
              assertThat(e.rank()).isEqualTo(1);
              assertThat(e.getSuppressed())
                  .singleElement()
                  .satisfies(
                      s ->
                          assertThat(s)
                              .hasRootCauseInstanceOf(PeerLostException.class)
                              .message()
                              .containsPattern("rank [02] failed \\(so did rank [02]\\)"));
            })
        .hasMessage(
            ErrorCode.RANK_CODE_FAILED.id()
                + ": rank 1 failed: java.lang.AssertionError: wrong bytes");
  }

  @Test
  void aMistakeOfAllRanksIsToldOnce() {
    assertThatThrownBy(
            () ->
                ThreadRanks.run(
                    4,
                    group -> {
                      throw new IllegalStateException("the same everywhere");
                    }))
        .isInstanceOf(RankFailedException.class)
        .hasNoSuppressedExceptions()
        .hasMessageContaining(" (so did ranks ")
        .hasMessageEndingWith("the same everywhere");
  }

  @Test
  void aRankThatDoesNotEndIsNamedShownAndInterrupted() throws Exception {
    CountDownLatch interrupted = new CountDownLatch(1);
    assertThatThrownBy(
            () ->
                ThreadRanks.run(
                    2,
                    Duration.ofSeconds(2),
                    group -> {
                      if (group.rank() == 1) {
                        sleepUntilInterrupted();
                        interrupted.countDown();
                      }
                    }))
        .isInstanceOfSatisfying(
            GroupTimeoutException.class,
            e -> {
              assertThat(e.missing()).containsExactly(1);
              assertThat(Arrays.toString(e.getSuppressed()[0].getStackTrace()))
                  .contains("sleepUntilInterrupted");
            })
        .hasMessage(ErrorCode.RANKS_STILL_RUNNING.id() + ": ranks [1] did not end within 2 s");
    interrupted.await();
  }

  private static void sleepUntilInterrupted() {
    try {
      Thread.sleep(60_000);
    } catch (InterruptedException e) {
      Thread.currentThread().interrupt();
    }
  }

  @Test
  void eachRankRunsOnAThreadOfItsOwnThatIsGoneAfterwards() {
    var threads = ThreadRanks.call(3, group -> Thread.currentThread());
    assertThat(threads).doesNotHaveDuplicates().allSatisfy(t -> assertThat(t.isAlive()).isFalse());
    assertThat(threads.get(2).getName()).isEqualTo("ep4j-rank-2");
  }
}
