package org.ep4j.group;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;
import static org.ep4j.group.TcpWorld.LONG;

import java.io.IOException;
import java.io.UncheckedIOException;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.Random;
import java.util.concurrent.FutureTask;
import org.ep4j.error.ErrorCode;
import org.ep4j.error.IllegalUseException;
import org.ep4j.group.protocol.GroupState;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.parallel.Execution;
import org.junit.jupiter.api.parallel.ExecutionMode;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

@Execution(ExecutionMode.CONCURRENT)
@Timeout(60)
class TcpGroupTest {
  private static final Duration SHORT = Duration.ofMillis(100);

  @ParameterizedTest
  @ValueSource(longs = {1, 2, 3, 4, 5, 6, 7, 8})
  void ranksThatJoinInAnyOrderExchangeAnySizes(long seed) throws Exception {
    System.out.println("seed " + seed);
    Random random = new Random(seed);
    int size = 1 + random.nextInt(9);
    List<Integer> order = new ArrayList<>();
    for (int rank = 0; rank < size; rank++) {
      order.add(rank);
    }
    Collections.shuffle(order, random);
    int[] delay = random.ints(size, 0, 40).toArray();
    try (TcpWorld world = new TcpWorld(size)) {
      List<Group> groups =
          ThreadRanks.call(
              size,
              LONG,
              me -> {
                Thread.sleep(delay[me.rank()]);
                return world.join(world.rank(order.get(me.rank())).build());
              });
      TcpWorld.inEach(
          groups,
          group -> {
            assertThat(group.jobId()).isEqualTo(world.rendezvous.jobId());
            assertThat(group.size()).isEqualTo(size);
            for (int round = 0; round < 20; round++) {
              byte[][] all = group.allGather(bytes(seed, group.rank(), round), LONG);
              for (int rank = 0; rank < size; rank++) {
                assertThat(all[rank]).isEqualTo(bytes(seed, rank, round));
              }
              group.barrier(LONG);
            }
          });
    }
  }

  private static byte[] bytes(long seed, int rank, int round) {
    Random random = new Random(seed * 1_000_003 + rank * 1009L + round);
    byte[] bytes = new byte[round == 7 ? 300_000 : random.nextInt(2000)];
    random.nextBytes(bytes);
    return bytes;
  }

  @Test
  void theLargestContributionsArrive() throws Exception {
    try (TcpWorld world = new TcpWorld(3)) {
      TcpWorld.inEach(
          world.joinAll(),
          group -> {
            byte[] mine = new byte[Group.MAX_CONTRIBUTION];
            new Random(group.rank()).nextBytes(mine);
            byte[][] all = group.allGather(mine, LONG);
            assertThat(all[group.rank()]).isEqualTo(mine);
            assertThat(all[2]).hasSize(Group.MAX_CONTRIBUTION);
          });
    }
  }

  @Test
  void rankZeroMayHostTheRendezvousAndThePortIsFreeForTheNextGroup() {
    int port = TcpWorld.freePort();
    for (int round = 0; round < 3; round++) {
      ThreadRanks.run(
          3,
          LONG,
          me -> {
            GroupConfig config =
                TcpWorld.config(3).toBuilder()
                    .rank(me.rank())
                    .rendezvous("127.0.0.1", port)
                    .hostsRendezvous(me.rank() == 0)
                    .build();
            try (Group group = Group.join(config)) {
              assertThat(group.inProcess()).isFalse();
              group.barrier(LONG);
            }
          });
    }
  }

  @Test
  void aHostThatDoesNotKnowItsOwnNameYetHostsTheRendezvous() {
    int port = TcpWorld.freePort();
    ThreadRanks.run(
        2,
        LONG,
        me -> {
          String host = me.rank() == 0 ? "pod-0.not-yet.invalid" : "127.0.0.1";
          GroupConfig config =
              TcpWorld.config(2).toBuilder()
                  .rank(me.rank())
                  .rendezvous(host, port)
                  .hostsRendezvous(me.rank() == 0)
                  .build();
          try (Group group = Group.join(config)) {
            group.barrier(LONG);
          }
        });
  }

  @Test
  void aTimeoutNamesTheMissingRanksAndTheLateOnesStillCompleteTheCollective() throws Exception {
    try (TcpWorld world = new TcpWorld(3)) {
      List<Group> groups = world.joinAll();
      assertThatThrownBy(() -> groups.get(1).barrier(SHORT))
          .isInstanceOfSatisfying(
              GroupTimeoutException.class, e -> assertThat(e.missing()).containsExactly(0, 2))
          .hasMessage(
              ErrorCode.COLLECTIVE_TIMEOUT.id()
                  + ": barrier (collective number 1): ranks 0, 2 are missing after 100 ms");
      TcpWorld.inEach(group -> group.barrier(LONG), groups.get(0), groups.get(2));
      TcpWorld.inEach(groups, group -> group.barrier(LONG));
    }
  }

  @Test
  void aRankThatTimesOutRepeatedlyGetsTheMissingRanks() throws Exception {
    try (TcpWorld world = new TcpWorld(2)) {
      List<Group> groups = world.joinAll();
      for (int i = 0; i < GroupState.MAX_AHEAD; i++) {
        assertThatThrownBy(() -> groups.get(0).barrier(Duration.ZERO))
            .isInstanceOf(GroupTimeoutException.class);
      }
      assertThatThrownBy(() -> groups.get(0).barrier(LONG))
          .isExactlyInstanceOf(GroupException.class)
          .hasMessageStartingWith(ErrorCode.COLLECTIVE_LEAD.id())
          .hasMessageContaining(
              "rank 0 is 256 collectives ahead of rank 1, which is missing since number 1");
      for (int i = 0; i < GroupState.MAX_AHEAD; i++) {
        groups.get(1).barrier(LONG);
      }
      TcpWorld.inEach(groups, group -> group.barrier(LONG));
    }
  }

  @Test
  void anInterruptEndsJoiningAndGathering() throws Exception {
    try (TcpWorld world = new TcpWorld(2)) {
      assertInterrupted(() -> Group.join(world.rank(1).build()));
      List<Group> groups = world.joinAll();
      assertInterrupted(() -> groups.get(1).survivors(LONG));
      assertInterrupted(() -> groups.get(0).survivors(LONG));
      assertThat(groups.get(1).isAlive(0)).isTrue();
      TcpWorld.inEach(groups, group -> group.barrier(LONG));
    }
  }

  /**
   * The rendezvous notices a closed connection a moment later: also while this JVM starts
   * processes, which inherit its connections until they have closed them.
   */
  @Test
  void aJoinWaitsForTheEndOfAnInterruptedOne() throws Exception {
    Thread starter = Thread.ofPlatform().start(TcpGroupTest::startProcesses);
    try (TcpWorld world = new TcpWorld(2)) {
      FutureTask<Group> second =
          new FutureTask<>(
              () -> {
                Thread.sleep(300); // The first join holds the rank by then, and ends in 300 ms.
                return Group.join(world.rank(1).build());
              });
      Thread.ofPlatform().start(second);
      assertInterrupted(() -> Group.join(world.rank(1).build()), 600);
      try (Group rank0 = Group.join(world.rank(0).build());
          Group rank1 = second.get()) {
        TcpWorld.inEach(List.of(rank0, rank1), group -> group.barrier(LONG));
      }
    } finally {
      starter.interrupt();
      starter.join();
    }
  }

  private static void startProcesses() {
    try {
      while (true) {
        new ProcessBuilder("true").start().waitFor();
      }
    } catch (IOException e) {
      throw new UncheckedIOException(e);
    } catch (InterruptedException e) {
      // The test is over.
    }
  }

  private static void assertInterrupted(Runnable call) throws Exception {
    assertInterrupted(call, 200);
  }

  private static void assertInterrupted(Runnable call, long afterMillis) throws Exception {
    FutureTask<Void> task =
        new FutureTask<>(
            () -> {
              assertThatThrownBy(call::run)
                  .isInstanceOf(GroupException.class)
                  .hasMessageContaining("interrupted");
              return null;
            });
    Thread thread = Thread.ofPlatform().start(task);
    Thread.sleep(afterMillis);
    thread.interrupt();
    task.get();
  }

  @Test
  void ranksThatCallDifferentCollectivesGetAnError() throws Exception {
    try (TcpWorld world = new TcpWorld(2)) {
      TcpWorld.inEach(
          world.joinAll(),
          group ->
              assertThatThrownBy(
                      () -> {
                        if (group.rank() == 0) {
                          group.barrier(LONG);
                        } else {
                          group.allGather(new byte[1], LONG);
                        }
                      })
                  .isExactlyInstanceOf(GroupException.class)
                  .hasMessageStartingWith(ErrorCode.COLLECTIVE_MISMATCH.id()));
    }
  }

  @Test
  void aRankThatFailsInACollectiveIsNamedToTheOthersAtOnce() throws Exception {
    try (TcpWorld world = new TcpWorld(3)) {
      TcpWorld.inEach(
          world.joinAll(),
          group -> {
            if (group.rank() == 1) {
              group.fail("expert 17 exploded");
              return;
            }
            assertThatThrownBy(() -> group.allGather(new byte[9], LONG))
                .isInstanceOfSatisfying(
                    PeerLostException.class, e -> assertThat(e.rank()).isEqualTo(1))
                .hasMessageContaining(
                    "allGather (collective number 1): rank 1 is gone: failed: expert 17 exploded");
            assertThat(group.isAlive(1)).isFalse();
            assertThat(group.deathReport(1)).contains("expert 17 exploded");
            assertThat(group.isAlive(0) && group.isAlive(2)).isTrue();
          });
    }
  }

  @Test
  void aRankThatClosesHasLeft() throws Exception {
    try (TcpWorld world = new TcpWorld(2)) {
      List<Group> groups = world.joinAll();
      TcpWorld.inEach(groups, group -> group.barrier(LONG));
      groups.get(0).close();
      groups.get(0).close();
      assertThatThrownBy(() -> groups.get(1).barrier(LONG))
          .isInstanceOf(PeerLostException.class)
          .hasMessageContaining("rank 0 is gone: left the group in good order");
      assertThat(groups.get(1).deathReport(0)).startsWith("left the group in good order");
      assertThatThrownBy(() -> groups.get(0).barrier(LONG))
          .isInstanceOf(IllegalUseException.class)
          .hasMessageStartingWith(ErrorCode.GROUP_CLOSED.id());
    }
  }

  @ParameterizedTest
  @ValueSource(longs = {11, 12, 13})
  void allSurvivorsAgreeWhichCollectivesCompleted(long seed) throws Exception {
    System.out.println("seed " + seed);
    Random random = new Random(seed);
    int size = 5;
    int victim = random.nextInt(size);
    int rounds = 1 + random.nextInt(200);
    try (TcpWorld world = new TcpWorld(size)) {
      List<Group> groups = world.joinAll();
      int[] completed = new int[size];
      TcpWorld.inEach(
          groups,
          group -> {
            if (group.rank() == victim) {
              for (int i = 0; i < rounds; i++) {
                group.barrier(LONG);
              }
              group.fail("seeded");
              return;
            }
            assertThatThrownBy(
                    () -> {
                      while (true) {
                        group.barrier(LONG);
                        completed[group.rank()]++;
                      }
                    })
                .isInstanceOf(PeerLostException.class);
          });
      for (int rank = 0; rank < size; rank++) {
        assertThat(completed[rank]).isEqualTo(rank == victim ? 0 : rounds);
      }
    }
  }

  @Test
  void membersNoticeAtOnceThatTheRendezvousWasClosed() throws Exception {
    TcpWorld world = new TcpWorld(2);
    List<Group> groups = world.joinAll();
    Thread closer = Thread.startVirtualThread(world.rendezvous::close);
    TcpWorld.inEach(
        groups,
        group ->
            assertThatThrownBy(
                    () -> {
                      // Any number of barriers may precede the close.
                      while (true) {
                        group.barrier(LONG);
                      }
                    })
                .isInstanceOfSatisfying(
                    PeerLostException.class, e -> assertThat(e.rank()).isEqualTo(-1))
                .hasMessageStartingWith(ErrorCode.RENDEZVOUS_LOST.id())
                .hasMessageContaining("it was closed"));
    closer.join();
    assertThat(groups.get(0).isAlive(1)).isTrue();
    world.close();
  }

  @Test
  void survivorsFormAGroupWhetherTheRendezvousLivesOrNot() throws Exception {
    for (boolean lives : new boolean[] {true, false}) {
      try (TcpWorld world = new TcpWorld(4)) {
        List<Group> groups = world.joinAll();
        groups.get(2).fail("gone");
        if (!lives) {
          world.rendezvous.close();
        }
        TcpWorld.inEach(
            group -> {
              try (Group next = group.survivors(LONG)) {
                assertThat(next.size()).isEqualTo(3);
                assertThat(next.jobId()).startsWith(group.jobId() + "-");
                byte[][] old = next.allGather(new byte[] {(byte) group.rank()}, LONG);
                assertThat(new byte[] {old[0][0], old[1][0], old[2][0]}).containsExactly(0, 1, 3);
                group.close();
                next.barrier(LONG);
              }
            },
            groups.get(0),
            groups.get(1),
            groups.get(3));
      }
    }
  }

  @Test
  void survivorsMayLoseMoreRanksAndFormAgainUntilOneIsLeft() throws Exception {
    try (TcpWorld world = new TcpWorld(4)) {
      List<Group> groups = world.joinAll();
      for (int left = 4; left > 1; left--) {
        // The lowest rank leaves each time: it hosts the group of the next round.
        groups.getFirst().fail("round " + left);
        List<Group> next = new ArrayList<>(Collections.nCopies(left - 1, groups.get(0)));
        TcpWorld.inEach(
            groups.subList(1, left),
            group -> {
              Group survivor = world.keep(group.survivors(LONG));
              next.set(survivor.rank(), survivor);
              survivor.barrier(LONG);
            });
        assertThat(next.getFirst().size()).isEqualTo(left - 1);
        groups = next;
      }
      assertThat(groups.getFirst().inProcess()).isTrue();
    }
  }

  @Test
  void survivorsNameALiveRankThatDoesNotCall() throws Exception {
    try (TcpWorld world = new TcpWorld(3)) {
      List<Group> groups = world.joinAll();
      // The host waits longer: if the host aborts first, a client receives a message about the host
      // instead.
      TcpWorld.inEach(
          group ->
              assertThatThrownBy(
                      () -> group.survivors(Duration.ofSeconds(group.rank() == 0 ? 6 : 3)))
                  .isInstanceOfSatisfying(
                      GroupTimeoutException.class, e -> assertThat(e.missing()).contains(1))
                  .hasMessageStartingWith(ErrorCode.SURVIVORS_TIMEOUT.message("survivors: "))
                  .hasMessageEndingWith(": call survivors() on all live ranks"),
          groups.get(0),
          groups.get(2));
      assertThatThrownBy(() -> groups.get(2).survivors(Duration.ofSeconds(2)))
          .isInstanceOfSatisfying(
              GroupTimeoutException.class, e -> assertThat(e.missing()).containsExactly(0))
          .hasMessageContaining("rank 0, which hosts the rendezvous, has not called it");
      // A timeout is not a death: all ranks may try again.
      TcpWorld.inEach(
          groups,
          group -> {
            try (Group next = group.survivors(LONG)) {
              assertThat(next.size()).isEqualTo(3);
            }
          });
    }
  }
}
