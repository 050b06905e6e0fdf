package org.ep4j.group;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import java.time.Duration;
import java.util.List;
import java.util.Random;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.CyclicBarrier;
import java.util.concurrent.FutureTask;
import java.util.concurrent.TimeUnit;
import org.ep4j.error.ErrorCode;
import org.ep4j.error.IllegalUseException;
import org.ep4j.error.InvalidArgumentException;
import org.ep4j.group.protocol.GroupState;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

class InProcessGroupTest {
  private static final Duration LONG = Duration.ofSeconds(20);
  private static final Duration SHORT = Duration.ofMillis(50);

  @ParameterizedTest
  @ValueSource(ints = {1, 2, 5, 16})
  void allGatherReturnsEveryRanksBytesInRankOrder(int ranks) {
    ThreadRanks.run(
        ranks,
        group -> {
          Random random = new Random(group.rank());
          for (int round = 0; round < 50; round++) {
            Thread.sleep(0, random.nextInt(200_000));
            byte[][] all = group.allGather(bytes(group.rank(), round), LONG);
            assertThat(all.length).isEqualTo(group.size());
            for (int r = 0; r < all.length; r++) {
              assertThat(all[r]).isEqualTo(bytes(r, round));
            }
          }
        });
  }

  private static byte[] bytes(int rank, int round) {
    byte[] bytes = new byte[rank * 3 + round % 4];
    new Random(rank * 1000L + round).nextBytes(bytes);
    return bytes;
  }

  @Test
  void whatARankDoesWithItsResultOrItsInputIsNotSeenByOthers() {
    ThreadRanks.run(
        3,
        group -> {
          byte[] mine = {(byte) group.rank()};
          byte[][] all = group.allGather(mine, LONG);
          mine[0] = 99;
          for (byte[] part : all) {
            part[0] = 77;
          }
          group.barrier(LONG);
          assertThat(group.allGather(new byte[] {5}, LONG)[0]).containsExactly(5);
        });
  }

  @Test
  void allRanksShareAJobIdThatOtherJobsDoNotHave() {
    List<Group> one = Group.inProcess(3);
    List<Group> other = Group.inProcess(3);
    assertThat(one).allSatisfy(g -> assertThat(g.jobId()).isEqualTo(one.get(0).jobId()));
    assertThat(one.get(0).jobId()).isNotEqualTo(other.get(0).jobId()).matches("[0-9a-z-]{1,40}");
    assertThat(one).allSatisfy(g -> assertThat(g.inProcess()).isTrue());
  }

  @Test
  void aTimeoutNamesTheMissingRanks() throws Exception {
    List<Group> groups = Group.inProcess(4);
    FutureTask<Void> call = waitingInBarrier(groups.get(2));
    assertThatThrownBy(() -> groups.get(0).barrier(SHORT))
        .isInstanceOfSatisfying(
            GroupTimeoutException.class, e -> assertThat(e.missing()).containsExactly(1, 3))
        .hasMessage(
            ErrorCode.COLLECTIVE_TIMEOUT.id()
                + ": barrier (collective number 1): ranks 1, 3 are missing after 50 ms");
    groups.get(1).fail("end of test");
    assertThatThrownBy(call::get).hasRootCauseInstanceOf(PeerLostException.class);
  }

  @Test
  void endingARankEndsItsWait() throws Exception {
    List<Group> groups = Group.inProcess(2);
    FutureTask<Void> call = waitingInBarrier(groups.get(1));
    groups.get(1).fail("no use");
    assertThatThrownBy(() -> call.get(LONG.toMillis() / 2, TimeUnit.MILLISECONDS))
        .cause()
        .isInstanceOfSatisfying(PeerLostException.class, e -> assertThat(e.rank()).isEqualTo(1))
        .hasMessageContaining("this rank (1) is out of the group: failed: no use");
  }

  private static FutureTask<Void> waitingInBarrier(Group group) {
    FutureTask<Void> call = new FutureTask<>(() -> group.barrier(LONG), null);
    Thread thread = Thread.startVirtualThread(call);
    while (thread.getState() != Thread.State.TIMED_WAITING) {
      Thread.onSpinWait();
    }
    return call;
  }

  @Test
  void aCollectiveThatTimedOutCountsAsCalledSoTheLateRankStillCompletesIt() throws Exception {
    List<Group> groups = Group.inProcess(2);
    assertThatThrownBy(() -> groups.get(0).allGather(new byte[] {1}, SHORT))
        .isInstanceOf(GroupTimeoutException.class);
    byte[][] late = groups.get(1).allGather(new byte[] {2}, SHORT);
    assertThat(late[0]).containsExactly(1);
    Thread next = Thread.startVirtualThread(() -> groups.get(1).barrier(LONG));
    groups.get(0).barrier(LONG);
    next.join();
  }

  @Test
  void aRankThatTimesOutRepeatedlyGetsTheMissingRanks() {
    Group group = Group.inProcess(2).get(0);
    for (int i = 0; i < GroupState.MAX_AHEAD; i++) {
      assertThatThrownBy(() -> group.barrier(Duration.ZERO))
          .isInstanceOf(GroupTimeoutException.class);
    }
    assertThatThrownBy(() -> group.barrier(Duration.ZERO))
        .isExactlyInstanceOf(GroupException.class)
        .hasMessageStartingWith(ErrorCode.COLLECTIVE_LEAD.id())
        .hasMessageContaining(
            "rank 0 is 256 collectives ahead of rank 1, which is missing since number 1");
  }

  @Test
  void ranksThatCallDifferentCollectivesGetAnError() {
    List<Group> groups = Group.inProcess(2);
    assertThatThrownBy(() -> groups.get(0).barrier(SHORT))
        .isInstanceOf(GroupTimeoutException.class);
    assertThatThrownBy(() -> groups.get(1).allGather(new byte[0], LONG))
        .hasMessageStartingWith(ErrorCode.COLLECTIVE_MISMATCH.id())
        .hasMessageContaining("rank 1 called allGather as its collective number 1")
        .hasMessageContaining("rank 0 called barrier");
  }

  @Test
  void aRankThatFailsEndsTheWaitsOfTheOthersAtOnceWithItsName() {
    // A rank that returns has left the group, so all must have looked before.
    CyclicBarrier looked = new CyclicBarrier(3);
    assertThatThrownBy(
            () ->
                ThreadRanks.run(
                    4,
                    group -> {
                      if (group.rank() == 2) {
                        throw new IllegalArgumentException("no expert here");
                      }
                      assertThatThrownBy(() -> group.allGather(new byte[1], LONG))
                          .isInstanceOfSatisfying(
                              PeerLostException.class, e -> assertThat(e.rank()).isEqualTo(2))
                          .hasMessageContaining("rank 2 is gone: failed: ")
                          .hasMessageContaining("no expert here");
                      assertThat(group.isAlive(2)).isFalse();
                      assertThat(group.isAlive(1)).isTrue();
                      assertThat(group.deathReport(2)).contains("no expert here");
                      assertThat(group.deathReport(1)).isNull();
                      looked.await(LONG.toSeconds(), TimeUnit.SECONDS);
                    }))
        .isInstanceOfSatisfying(RankFailedException.class, e -> assertThat(e.rank()).isEqualTo(2))
        .hasRootCauseInstanceOf(IllegalArgumentException.class);
  }

  @Test
  void aRankThatClosesHasLeftAndIsNotReportedAsFailed() {
    List<Group> groups = Group.inProcess(2);
    groups.get(1).close();
    groups.get(1).close();
    groups.get(1).fail("too late to fail");
    assertThat(groups.get(0).isAlive(1)).isFalse();
    assertThat(groups.get(0).deathReport(1)).startsWith("left the group in good order at ");
    assertThatThrownBy(() -> groups.get(0).barrier(LONG))
        .hasMessageContaining("rank 1 is gone: left the group in good order");
    assertThatThrownBy(() -> groups.get(1).barrier(LONG))
        .isInstanceOf(IllegalUseException.class)
        .hasMessageStartingWith(ErrorCode.GROUP_CLOSED.id())
        .hasMessageContaining("rank 1");
  }

  @Test
  void aCollectiveThatIsCompleteIsDeliveredEvenIfARankLeavesRightAfterIt() {
    ThreadRanks.run(
        8,
        group -> {
          assertThat(group.allGather(new byte[] {(byte) group.rank()}, LONG)[7]).containsExactly(7);
          group.close();
        });
  }

  @Test
  void aRankWhoseThreadEndedWithoutClosingIsLost() throws Exception {
    List<Group> groups = Group.inProcess(2);
    Thread gone =
        Thread.ofPlatform()
            .name("forgetful")
            .start(
                () ->
                    assertThatThrownBy(() -> groups.get(1).barrier(Duration.ZERO))
                        .isInstanceOf(GroupTimeoutException.class));
    gone.join();
    groups.get(0).barrier(LONG);
    assertThatThrownBy(() -> groups.get(0).barrier(LONG))
        .isInstanceOf(PeerLostException.class)
        .hasMessageContaining("rank 1 is gone: its thread 'forgetful' ended without closing");
  }

  @Test
  void anotherThreadMayTakeARankOver() throws Exception {
    List<Group> groups = Group.inProcess(2);
    for (int phase = 0; phase < 3; phase++) {
      Thread other = Thread.startVirtualThread(() -> groups.get(1).barrier(LONG));
      groups.get(0).barrier(LONG);
      other.join();
      assertThat(groups.get(0).isAlive(1)).isTrue();
    }
  }

  @Test
  void twoThreadsInCollectivesOfOneRankAreRefused() throws Exception {
    List<Group> groups = Group.inProcess(2);
    Thread first = Thread.startVirtualThread(() -> groups.get(0).barrier(LONG));
    while (first.getState() != Thread.State.TIMED_WAITING) {
      Thread.onSpinWait();
    }
    assertThatThrownBy(() -> groups.get(0).barrier(LONG))
        .isInstanceOf(IllegalUseException.class)
        .hasMessageStartingWith(ErrorCode.GROUP_CONCURRENT_USE.id())
        .hasMessageContaining("rank 0");
    assertThatThrownBy(() -> groups.get(0).together("a task", () -> 1))
        .isInstanceOf(IllegalUseException.class)
        .hasMessageStartingWith(ErrorCode.GROUP_CONCURRENT_USE.id());
    groups.get(1).barrier(LONG);
    first.join();
  }

  @Test
  void aTaskThatFailsLetsOtherThreadsIn() throws Exception {
    List<Group> groups = Group.inProcess(2);
    IllegalStateException failure = new IllegalStateException("inside");
    assertThatThrownBy(
            () ->
                groups
                    .get(0)
                    .together(
                        "a task",
                        () -> {
                          throw failure;
                        }))
        .isSameAs(failure);
    Thread other = Thread.startVirtualThread(() -> groups.get(0).barrier(LONG));
    groups.get(1).barrier(LONG);
    other.join();
  }

  /** Between two collectives of one task another thread could take its place. */
  @Test
  void noOtherThreadCallsCollectivesDuringATask() throws Exception {
    List<Group> groups = Group.inProcess(2);
    CountDownLatch inside = new CountDownLatch(1);
    CountDownLatch tried = new CountDownLatch(1);
    Thread task =
        Thread.startVirtualThread(
            () ->
                groups
                    .get(0)
                    .together(
                        "a task",
                        () -> {
                          inside.countDown();
                          awaitUninterruptibly(tried);
                          return groups.get(0).allGather(new byte[] {1}, LONG);
                        }));
    inside.await();
    assertThatThrownBy(() -> groups.get(0).barrier(LONG))
        .isInstanceOf(IllegalUseException.class)
        .hasMessageStartingWith(ErrorCode.GROUP_CONCURRENT_USE.id())
        .hasMessageContaining("one of them for a task");
    assertThatThrownBy(() -> groups.get(0).together("another task", () -> 1))
        .isInstanceOf(IllegalUseException.class);
    tried.countDown();
    byte[][] parts =
        groups.get(1).together("a task", () -> groups.get(1).allGather(new byte[] {2}, LONG));
    assertThat(parts).isDeepEqualTo(new byte[][] {{1}, {2}});
    task.join();
    Thread.startVirtualThread(() -> groups.get(0).barrier(LONG));
    groups.get(1).barrier(LONG);
  }

  private static void awaitUninterruptibly(CountDownLatch latch) {
    try {
      latch.await();
    } catch (InterruptedException e) {
      throw new AssertionError(e);
    }
  }

  @Test
  void ranksWithDifferentPurposesDoNotTakeEachOthersBytes() {
    ThreadRanks.run(
        2,
        group -> {
          String purpose = group.rank() == 0 ? "opening a buffer" : "opening a wire";
          assertThatThrownBy(
                  () -> group.together(purpose, () -> group.allGather(new byte[1], LONG)))
              .isInstanceOf(GroupException.class)
              .hasMessageStartingWith(ErrorCode.COLLECTIVE_MISMATCH.id())
              .hasMessageContaining("'opening a buffer'")
              .hasMessageContaining("'opening a wire'");
        });
  }

  @Test
  void anInterruptEndsAWait() throws Exception {
    List<Group> groups = Group.inProcess(2);
    CountDownLatch ended = new CountDownLatch(1);
    Thread waiter =
        Thread.startVirtualThread(
            () -> {
              assertThatThrownBy(() -> groups.get(0).barrier(LONG))
                  .hasMessageContaining("interrupted");
              assertThat(Thread.currentThread().isInterrupted()).isTrue();
              ended.countDown();
            });
    waiter.interrupt();
    ended.await();
  }

  @Test
  void tooManyBytesAreRefusedBeforeAnythingIsSent() {
    Group group = Group.inProcess(1).get(0);
    assertThat(group.allGather(new byte[Group.MAX_CONTRIBUTION], LONG)[0]).hasSize(1 << 20);
    assertThatThrownBy(() -> group.allGather(new byte[Group.MAX_CONTRIBUTION + 1], LONG))
        .isInstanceOf(InvalidArgumentException.class)
        .hasMessageStartingWith(ErrorCode.CONTRIBUTION_SIZE.id())
        .hasMessageContaining("1048577 bytes");
    assertThatThrownBy(() -> group.barrier(Duration.ofMillis(-1)))
        .hasMessageStartingWith(ErrorCode.GROUP_TIMING.id())
        .hasMessageContaining("PT-0.001S");
    assertThatThrownBy(() -> Group.inProcess(0)).hasMessageStartingWith(ErrorCode.GROUP_SIZE.id());
  }

  @Test
  void survivorsOfALossAreRenumberedInTheirOldOrder() {
    List<Group> groups = Group.inProcess(5);
    groups.get(1).fail("bad memory");
    List<Integer> newRanks =
        ThreadRanks.call(
            5,
            me -> {
              if (me.rank() == 1) {
                return -1;
              }
              Group group = groups.get(me.rank());
              try (group;
                  Group next = group.survivors(LONG)) {
                assertThat(next.size()).isEqualTo(4);
                assertThat(next.jobId()).startsWith(group.jobId() + "-").matches("[0-9a-z-]{1,40}");
                byte[][] old = next.allGather(new byte[] {(byte) group.rank()}, LONG);
                assertThat(List.of(old[0][0], old[1][0], old[2][0], old[3][0]))
                    .containsExactly((byte) 0, (byte) 2, (byte) 3, (byte) 4);
                return next.rank();
              }
            });
    assertThat(newRanks).containsExactly(0, -1, 1, 2, 3);
  }

  @Test
  void survivorsCopeWithARankThatIsLostWhileTheyGather() {
    List<Group> groups = Group.inProcess(3);
    ThreadRanks.run(
        3,
        me -> {
          if (me.rank() == 1) {
            Thread.sleep(30);
            groups.get(1).fail("late");
          } else {
            Group next = groups.get(me.rank()).survivors(LONG);
            assertThat(next.size()).isEqualTo(2);
            next.barrier(LONG);
          }
        });
  }

  @Test
  void survivorsNameALiveRankThatDoesNotCall() {
    List<Group> groups = Group.inProcess(3);
    groups.get(0).close();
    assertThatThrownBy(() -> groups.get(1).survivors(SHORT))
        .isInstanceOf(GroupTimeoutException.class)
        .hasMessage(
            ErrorCode.SURVIVORS_TIMEOUT.id() + ": survivors: rank 2 is missing after 50 ms");
  }
}
