package org.ep4j.group;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;
import static org.ep4j.group.TcpWorld.LONG;

import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.FutureTask;
import java.util.concurrent.TimeUnit;
import org.ep4j.error.ErrorCode;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.parallel.Execution;
import org.junit.jupiter.api.parallel.ExecutionMode;

/** Departed ranks are readmitted to a group whose rendezvous lives. */
@Execution(ExecutionMode.CONCURRENT)
@Timeout(120)
class ReadmissionTest {
  private static final Duration SHORT = Duration.ofMillis(200);

  private static Future<Group> rejoin(TcpWorld world, GroupConfig config) {
    FutureTask<Group> task = new FutureTask<>(() -> world.keep(Group.rejoin(config)));
    Thread.ofVirtual().start(task);
    return task;
  }

  private static Group get(Future<Group> group) throws Exception {
    return group.get(LONG.toMillis(), TimeUnit.MILLISECONDS);
  }

  private static String refusal(Future<Group> group) throws Exception {
    try {
      get(group);
      throw new AssertionError("was not refused");
    } catch (ExecutionException e) {
      assertThat(e.getCause()).isInstanceOf(JoinRefusedException.class);
      return String.valueOf(e.getCause().getMessage());
    }
  }

  private static void awaitReplacement(Group group, int rank, boolean rejoining) throws Exception {
    while (group.hasReplacement(rank) != rejoining) {
      Thread.sleep(1);
    }
  }

  private static void awaitDeath(Group group, int rank) throws Exception {
    while (group.isAlive(rank)) {
      Thread.sleep(1);
    }
  }

  private static List<Group> all(List<Group> groups, int replaced, Group by) {
    List<Group> all = new ArrayList<>(groups);
    all.set(replaced, by);
    return all;
  }

  @Test
  void aRestartedRankIsAdmittedAndCollectivesAreInStepWhateverWasCalledBefore() throws Exception {
    try (TcpWorld world = new TcpWorld(3)) {
      List<Group> groups = world.joinAll();
      TcpWorld.inEach(groups, group -> group.barrier(LONG));
      for (int round = 1; round <= 3; round++) {
        int victim = round % 3;
        Group one = groups.get((victim + 1) % 3);
        Group other = groups.get((victim + 2) % 3);
        groups.get(victim).fail("it is over");
        // One of the others has called a collective that never completed, one has not.
        assertThatThrownBy(() -> one.barrier(LONG)).isInstanceOf(PeerLostException.class);
        awaitDeath(other, victim);
        Future<Group> again = rejoin(world, world.rank(victim).build());
        awaitReplacement(one, victim, true);
        assertThat(again.isDone()).isFalse();
        TcpWorld.inEach(
            group -> assertThat(group.readmit(LONG)).containsExactly(victim), one, other);
        groups = all(groups, victim, get(again));
        TcpWorld.inEach(
            groups,
            group -> {
              assertThat(group.isAlive(victim)).isTrue();
              assertThat(group.hasReplacement(victim)).isFalse();
              assertThat(group.deathReport(victim)).isNull();
              assertThat(group.incarnation(victim)).isEqualTo(1);
              assertThat(group.jobId()).isEqualTo(world.rendezvous.jobId());
              byte[][] all = group.allGather(new byte[] {(byte) group.rank()}, LONG);
              for (int r = 0; r < 3; r++) {
                assertThat(all[r]).containsExactly(r);
              }
              group.barrier(LONG);
            });
      }
    }
  }

  @Test
  void severalRanksAreReadmittedAtOnceAndLeaveAgain() throws Exception {
    try (TcpWorld world = new TcpWorld(4)) {
      List<Group> groups = world.joinAll();
      for (int incarnation = 1; incarnation <= 2; incarnation++) {
        int now = incarnation;
        groups.get(1).close();
        groups.get(3).fail("over");
        awaitDeath(groups.get(0), 1);
        awaitDeath(groups.get(0), 3);
        Future<Group> three = rejoin(world, world.rank(3).build());
        Future<Group> one = rejoin(world, world.rank(1).build());
        awaitReplacement(groups.get(2), 1, true);
        awaitReplacement(groups.get(2), 3, true);
        TcpWorld.inEach(
            group -> assertThat(group.readmit(LONG)).containsExactly(1, 3),
            groups.get(0),
            groups.get(2));
        groups = List.of(groups.get(0), get(one), groups.get(2), get(three));
        TcpWorld.inEach(
            groups,
            group -> {
              group.barrier(LONG);
              for (int r = 0; r < 4; r++) {
                assertThat(group.incarnation(r)).isEqualTo(r % 2 == 0 ? 0 : now);
              }
              try (Group same = group.survivors(LONG)) {
                assertThat(same.size()).isEqualTo(4);
                same.barrier(LONG);
              }
            });
      }
    }
  }

  @Test
  void aRankThatIsStillGoneIsGoneForTheNewcomerToo() throws Exception {
    try (TcpWorld world = new TcpWorld(3)) {
      List<Group> groups = world.joinAll();
      groups.get(1).fail("over");
      groups.get(2).fail("over");
      awaitDeath(groups.get(0), 1);
      awaitDeath(groups.get(0), 2);
      Future<Group> again = rejoin(world, world.rank(2).build());
      awaitReplacement(groups.get(0), 2, true);
      assertThat(groups.get(0).readmit(LONG)).containsExactly(2);
      Group newcomer = get(again);
      assertThat(newcomer.isAlive(1)).isFalse();
      assertThatThrownBy(() -> newcomer.barrier(LONG))
          .isInstanceOf(PeerLostException.class)
          .hasMessageContaining("barrier (collective number 1): rank 1 is gone");
      TcpWorld.inEach(
          group -> {
            try (Group live = group.survivors(LONG)) {
              assertThat(live.size()).isEqualTo(2);
              live.barrier(LONG);
            }
          },
          groups.get(0),
          newcomer);
    }
  }

  @Test
  void aRejoinAsALiveRankIsRefusedOnceItsDeathCouldNotGoUnnoticed() throws Exception {
    try (TcpWorld world = new TcpWorld(2)) {
      List<Group> groups = world.joinAll();
      Duration liveness = Duration.ofMillis(500);
      GroupConfig config =
          world.rank(1).livenessTimeout(liveness).heartbeatInterval(Duration.ofMillis(50)).build();
      long start = System.nanoTime();
      assertThat(refusal(rejoin(world, config)))
          .startsWith(
              ErrorCode.DUPLICATE_RANK.id() + ": rank 1 cannot rejoin: refused by 127.0.0.1:")
          .contains(
              "rank 1 is process "
                  + ProcessHandle.current().pid()
                  + " at 127.0.0.1 and counts as alive");
      assertThat(System.nanoTime() - start).isGreaterThanOrEqualTo(2 * liveness.toNanos());
      TcpWorld.inEach(groups, group -> group.barrier(LONG));
      // A process that dies meanwhile is replaced.
      Future<Group> early = rejoin(world, world.rank(1).build());
      Thread.sleep(300);
      groups.get(1).fail("over");
      awaitReplacement(groups.get(0), 1, true);
      assertThat(groups.get(0).readmit(LONG)).containsExactly(1);
      TcpWorld.inEach(group -> group.barrier(LONG), groups.get(0), get(early));
    }
  }

  @Test
  void unauthenticatedAndSecondRejoinsAreRefused() throws Exception {
    try (TcpWorld world = new TcpWorld(2)) {
      List<Group> groups = world.joinAll();
      groups.get(1).fail("over");
      awaitDeath(groups.get(0), 1);
      assertThat(refusal(rejoin(world, world.rank(1).secret("another").build())))
          .contains("does not have the secret of this job");
      assertThat(refusal(rejoin(world, world.rank(1).size(3).build())))
          .contains("rank 1 expects a world of 3 ranks, this job has 2");
      // Group.join readmits no rank.
      assertThatThrownBy(() -> Group.join(world.rank(1).build()))
          .isInstanceOf(JoinRefusedException.class)
          .hasMessageContaining("calls Group.rejoin");
      assertThat(groups.get(0).hasReplacement(1)).isFalse();
      Future<Group> first = rejoin(world, world.rank(1).build());
      awaitReplacement(groups.get(0), 1, true);
      assertThat(refusal(rejoin(world, world.rank(1).build())))
          .contains("already waits to be admitted as rank 1");
      assertThat(groups.get(0).readmit(LONG)).containsExactly(1);
      TcpWorld.inEach(group -> group.barrier(LONG), groups.get(0), get(first));
    }
  }

  @Test
  void aRejoinBeforeTheGroupHasFormedIsRefused() throws Exception {
    try (TcpWorld world = new TcpWorld(2)) {
      assertThat(refusal(rejoin(world, world.rank(1).build())))
          .contains("the group has not formed yet");
    }
  }

  @Test
  void aTimeoutNamesTheMissingRanksAndChangesNothing() throws Exception {
    try (TcpWorld world = new TcpWorld(3)) {
      List<Group> groups = world.joinAll();
      assertThatThrownBy(() -> groups.get(0).readmit(SHORT))
          .isInstanceOfSatisfying(
              GroupTimeoutException.class, e -> assertThat(e.missing()).containsExactly(1, 2))
          .hasMessageStartingWith(ErrorCode.READMIT_TIMEOUT.id())
          .hasMessageContaining("ranks 1, 2 are missing after 200 ms");
      TcpWorld.inEach(groups, group -> group.barrier(LONG));
      groups.get(1).fail("over");
      awaitDeath(groups.get(0), 1);
      awaitDeath(groups.get(2), 1);
      TcpWorld.inEach(
          group ->
              assertThatThrownBy(() -> group.readmit(Duration.ofSeconds(1)))
                  .isInstanceOfSatisfying(
                      GroupTimeoutException.class, e -> assertThat(e.missing()).containsExactly(1))
                  .hasMessageContaining("no process replaces a departed rank"),
          groups.get(0),
          groups.get(2));
      Future<Group> again = rejoin(world, world.rank(1).build());
      awaitReplacement(groups.get(2), 1, true);
      assertThatThrownBy(() -> groups.get(2).readmit(SHORT))
          .hasMessageStartingWith(ErrorCode.READMIT_TIMEOUT.id())
          .hasMessageContaining("rank 0 is missing after 200 ms");
      TcpWorld.inEach(
          group -> assertThat(group.readmit(LONG)).containsExactly(1),
          groups.get(0),
          groups.get(2));
      TcpWorld.inEach(group -> group.barrier(LONG), groups.get(0), get(again), groups.get(2));
    }
  }

  @Test
  void anAbandonedRejoinIsReplacedWhileTheOthersWait() throws Exception {
    try (TcpWorld world = new TcpWorld(2);
        var threads = Executors.newVirtualThreadPerTaskExecutor()) {
      List<Group> groups = world.joinAll();
      groups.get(1).fail("over");
      awaitDeath(groups.get(0), 1);
      GroupConfig shortTimeouts = world.rank(1).joinTimeout(Duration.ofMillis(500)).build();
      assertThatThrownBy(() -> Group.rejoin(shortTimeouts))
          .isInstanceOf(GroupTimeoutException.class)
          .hasMessageContaining(
              "the rendezvous answers, but rank 0 is missing: call readmit() on them");
      awaitReplacement(groups.get(0), 1, false);
      Future<int[]> waiting = threads.submit(() -> groups.get(0).readmit(LONG));
      Group again = get(rejoin(world, world.rank(1).build()));
      assertThat(waiting.get(LONG.toMillis(), TimeUnit.MILLISECONDS)).containsExactly(1);
      TcpWorld.inEach(group -> group.barrier(LONG), groups.get(0), again);
    }
  }

  @Test
  void anInterruptedCallIsUndoneAndMayBeRepeatedAtOnce() throws Exception {
    try (TcpWorld world = new TcpWorld(3)) {
      List<Group> groups = world.joinAll();
      groups.get(1).fail("over");
      awaitDeath(groups.get(0), 1);
      awaitDeath(groups.get(2), 1);
      Future<Group> again = rejoin(world, world.rank(1).build());
      awaitReplacement(groups.get(0), 1, true);
      for (int i = 0; i < 20; i++) {
        Thread.currentThread().interrupt();
        Exception interrupted = failureToReadmit(groups.get(0), LONG);
        assertThat(Thread.interrupted()).isTrue();
        long start = System.nanoTime();
        Exception late = failureToReadmit(groups.get(0), SHORT);
        assertThat(System.nanoTime() - start).isGreaterThanOrEqualTo(SHORT.toNanos());
        assertThat(interrupted).hasMessageContaining("interrupted");
        assertThat(late).hasMessageContaining("rank 2 is missing after 200 ms");
      }
      TcpWorld.inEach(
          group -> assertThat(group.readmit(LONG)).containsExactly(1),
          groups.get(0),
          groups.get(2));
      TcpWorld.inEach(group -> group.barrier(LONG), groups.get(0), get(again), groups.get(2));
    }
  }

  private static Exception failureToReadmit(Group group, Duration timeout) {
    try {
      throw new AssertionError("admitted " + Arrays.toString(group.readmit(timeout)));
    } catch (GroupException e) {
      return e;
    }
  }

  @Test
  void closingTheGroupEndsTheWait() throws Exception {
    try (TcpWorld world = new TcpWorld(2)) {
      List<Group> groups = world.joinAll();
      groups.get(1).fail("over");
      awaitDeath(groups.get(0), 1);
      FutureTask<int[]> call = new FutureTask<>(() -> groups.get(0).readmit(Duration.ofHours(1)));
      Thread caller = Thread.ofPlatform().start(call);
      while (caller.getState() != Thread.State.TIMED_WAITING) {
        Thread.sleep(1);
      }
      groups.get(0).close();
      assertThatThrownBy(() -> call.get(LONG.toMillis(), TimeUnit.MILLISECONDS))
          .cause()
          .isInstanceOf(PeerLostException.class)
          .hasMessageContaining("this rank (0) is out of the group: left the group in good order");
    }
  }

  @Test
  void aRankThatWasDeclaredDeadRejoinsInTheSameProcess() throws Exception {
    try (TcpWorld world = new TcpWorld(2)) {
      List<Group> groups = world.joinAll();
      Group old = groups.get(1);
      old.fail("it thought so");
      Future<Group> again = rejoin(world, world.rank(1).build());
      assertThat(groups.get(0).readmit(LONG)).containsExactly(1);
      TcpWorld.inEach(group -> group.barrier(LONG), groups.get(0), get(again));
      assertThatThrownBy(() -> old.barrier(LONG)).isInstanceOf(IllegalStateException.class);
    }
  }

  @Test
  void threadsAreNotReadmitted() {
    try (Group group = Group.inProcess(1).getFirst()) {
      assertThatThrownBy(() -> group.readmit(LONG))
          .isInstanceOf(GroupException.class)
          .hasMessageStartingWith(ErrorCode.READMIT_UNSUPPORTED.id());
    }
  }
}
