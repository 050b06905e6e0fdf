package org.ep4j.group;

import static org.assertj.core.api.Assertions.assertThat;

import java.time.Duration;
import java.util.Arrays;
import java.util.Map;
import java.util.stream.IntStream;
import org.ep4j.error.ErrorCode;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.parallel.Execution;
import org.junit.jupiter.api.parallel.ExecutionMode;

/** Ranks that are separate JVMs, killed and restarted in all roles; rank 0 hosts. */
@Execution(ExecutionMode.CONCURRENT)
@Timeout(120)
class ReadmissionOfProcessesTest {
  private static final boolean FULL = Boolean.getBoolean("ep4j.full");
  private static final int RANKS = 3;

  private final RankProcess[] ranks = new RankProcess[RANKS];
  private final int[] incarnations = new int[RANKS];
  private final GroupConfig config =
      TcpWorld.config(RANKS).toBuilder()
          .rendezvous("127.0.0.1", TcpWorld.freePort())
          .joinTimeout(Duration.ofSeconds(30))
          .livenessTimeout(Duration.ofSeconds(10))
          .heartbeatInterval(Duration.ofMillis(50))
          .build();

  @AfterEach
  void end() {
    for (RankProcess rank : ranks) {
      rank.close();
    }
  }

  private void start() throws Exception {
    for (int rank = 0; rank < RANKS; rank++) {
      ranks[rank] = new RankProcess(variables(rank));
    }
    for (int rank = 0; rank < RANKS; rank++) {
      assertThat(ranks[rank].answer()).startsWith("joined " + rank + "/" + RANKS + " ");
    }
  }

  private Map<String, String> variables(int rank) {
    GroupConfig own = config.toBuilder().rank(rank).hostsRendezvous(rank == 0).build();
    return LaunchEnvironment.variables(own, rank);
  }

  private void kill(int victim) throws Exception {
    ranks[victim].kill();
    for (int rank : without(victim)) {
      assertThat(ranks[rank].ask("gone " + victim)).isNotEmpty();
    }
  }

  private void startAgain(int rank) throws Exception {
    ranks[rank] = new RankProcess(variables(rank), "again");
  }

  private static int[] without(int rank) {
    return IntStream.range(0, RANKS).filter(r -> r != rank).toArray();
  }

  private void assertAll(String command, String answer, int... some) throws Exception {
    for (int rank : some) {
      ranks[rank].send(command);
    }
    for (int rank : some) {
      assertThat(ranks[rank].answer()).as("rank %d to %s", rank, command).startsWith(answer);
    }
  }

  private void assertTakenIn(int rank) throws Exception {
    incarnations[rank]++;
    assertAll("readmit 20000", "took in [" + rank + "]", without(rank));
    assertThat(ranks[rank].answer()).startsWith("joined " + rank + "/" + RANKS + " ");
    assertAllInStep();
  }

  private void assertAllInStep() throws Exception {
    StringBuilder seen = new StringBuilder();
    Arrays.stream(incarnations).forEach(seen::append);
    String all = "0:%1$s 1:%1$s 2:%1$s".formatted(seen);
    assertAll("gather 10000", all, 0, 1, 2);
    assertAll("barrier 10000", "passed", 0, 1, 2);
  }

  @Test
  void everyRankIsKilledOnceAndReadmittedAlsoTheHostOfTheRendezvous() throws Exception {
    start();
    // 0 hosts first, then the lowest remaining rank: 1 and 0, with -Dep4j.full=true also 1 and 0
    // again.
    int[] victims = FULL ? new int[] {2, 0, 2, 1, 0, 1} : new int[] {2, 0, 1};
    for (int victim : victims) {
      kill(victim);
      startAgain(victim);
      assertTakenIn(victim);
    }
    assertAll("survivors 20000", "now ", 0, 1, 2);
    assertAll("barrier 10000", "passed", 0, 1, 2);
  }

  @Test
  void theHostOfTheRendezvousDiesWhileRanksWaitForARestartedOne() throws Exception {
    start();
    kill(2);
    ranks[1].send("readmit 30000");
    startAgain(2);
    assertThat(ranks[0].ask("claimed 2")).isEqualTo("claimed");
    ranks[0].kill();
    // The two continue with a new host.
    assertThat(ranks[1].answer()).isEqualTo("took in [2]");
    assertThat(ranks[2].answer()).startsWith("joined 2/3 ");
    incarnations[2]++;
    startAgain(0);
    assertTakenIn(0);
  }

  @Test
  void aNewcomerThatDiesWhileItWaitsIsReplacedByAnother() throws Exception {
    start();
    kill(1);
    startAgain(1);
    assertThat(ranks[0].ask("claimed 1")).isEqualTo("claimed");
    ranks[1].kill();
    assertThat(ranks[0].ask("readmit 1000"))
        .startsWith(
            "GroupTimeoutException: "
                + ErrorCode.READMIT_TIMEOUT.message(
                    "readmit: no process replaces a departed rank"));
    ranks[2].send("readmit 30000");
    startAgain(1);
    assertThat(ranks[0].ask("readmit 30000")).isEqualTo("took in [1]");
    assertThat(ranks[2].answer()).isEqualTo("took in [1]");
    assertThat(ranks[1].answer()).startsWith("joined 1/3 ");
    incarnations[1]++;
    assertAllInStep();
  }

  @Test
  void aRankThatWasStoppedTooLongIsPermanentlyOutAndDoesNotDisturbItsReplacement()
      throws Exception {
    start();
    RankProcess old = ranks[2];
    old.stop();
    assertAll("gone 2", "it was silent for ", 0, 1);
    startAgain(2);
    assertTakenIn(2);
    old.resume();
    assertThat(old.ask("gone 2")).startsWith("declared dead by the rendezvous");
    assertThat(old.ask("readmit 2000"))
        .startsWith(
            "PeerLostException: "
                + ErrorCode.RANK_LOST.message(
                    "readmit: this rank (2) is out of the group: declared dead"));
    assertThat(old.ask("survivors 2000"))
        .startsWith(
            "PeerLostException: " + ErrorCode.RANK_LOST.message("survivors: this rank (2) is out"));
    old.close();
    assertAllInStep();
  }

  @Test
  void theLostRendezvousIsReplacedEvenIfNoRankWaitsYet() throws Exception {
    start();
    kill(0);
    assertAll(
        "readmit 3000",
        "GroupTimeoutException: "
            + ErrorCode.READMIT_TIMEOUT.message(
                "readmit: no process replaces a departed rank (rank 0 is missing) after 3 s"),
        1,
        2);
    startAgain(0);
    // Known now: the rendezvous has notified the members.
    assertThat(ranks[2].ask("claimed 0")).isEqualTo("claimed");
    assertTakenIn(0);
  }

  @Test
  void aProcessDoesNotWaitForAdmissionAtALauncherThatWasStoppedTooLong() throws Exception {
    try (RankProcess launcher = new RankProcess(Map.of(), "host", Integer.toString(RANKS))) {
      int port = Integer.parseInt(launcher.answer().substring("port ".length()));
      for (int rank = 0; rank < RANKS; rank++) {
        ranks[rank] = new RankProcess(variables(rank, port));
      }
      for (RankProcess rank : ranks) {
        assertThat(rank.answer()).startsWith("joined ");
      }
      kill(2);
      ranks[2] = new RankProcess(variables(2, port), "again");
      assertThat(ranks[0].ask("claimed 2")).isEqualTo("claimed");
      launcher.stop();
      assertThat(ranks[0].ask("readmit 100"))
          .startsWith(
              "GroupTimeoutException: "
                  + ErrorCode.READMIT_TIMEOUT.message("readmit: the rendezvous is lost"));
      launcher.resume();
      // The process asks again, and gets an answer.
      assertThat(ranks[2].answer())
          .startsWith(
              "JoinRefusedException: "
                  + ErrorCode.RENDEZVOUS_CLOSED.message("rank 2 cannot rejoin"))
          .contains("this group has ended");
    }
  }

  private static Map<String, String> variables(int rank, int port) {
    return LaunchEnvironment.variables(TcpWorld.rankOneAt(RANKS, port).rank(rank).build(), rank);
  }
}
