package org.ep4j.group;

import static org.assertj.core.api.Assertions.assertThat;

import java.io.IOException;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import org.ep4j.error.ErrorCode;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.parallel.Execution;
import org.junit.jupiter.api.parallel.ExecutionMode;

/** Ranks that are separate JVMs, killed and stopped in all roles. */
@Execution(ExecutionMode.CONCURRENT)
@Timeout(120)
class GroupOfProcessesTest {
  private final List<RankProcess> ranks = new ArrayList<>();

  @AfterEach
  void end() {
    ranks.forEach(RankProcess::close);
  }

  /**
   * Starts the ranks of a job whose rank 0 hosts the rendezvous, and waits until they have joined.
   */
  private void start(int size, Duration liveness) throws Exception {
    GroupConfig config =
        TcpWorld.config(size).toBuilder()
            .rendezvous("127.0.0.1", TcpWorld.freePort())
            .joinTimeout(Duration.ofSeconds(30))
            .livenessTimeout(liveness)
            .heartbeatInterval(Duration.ofMillis(50))
            .build();
    for (int rank = 0; rank < size; rank++) {
      GroupConfig own = config.toBuilder().rank(rank).hostsRendezvous(rank == 0).build();
      start(LaunchEnvironment.variables(own, rank));
    }
    for (int rank = 0; rank < size; rank++) {
      assertThat(ranks.get(rank).answer()).startsWith("joined " + rank + "/" + size + " ");
    }
  }

  private void start(Map<String, String> variables) throws IOException {
    ranks.add(new RankProcess(variables));
  }

  private RankProcess rank(int rank) {
    return ranks.get(rank);
  }

  private void assertAll(String command, String answer, int... some) throws Exception {
    for (int rank : some) {
      rank(rank).send(command);
    }
    for (int rank : some) {
      assertThat(rank(rank).answer()).as("rank %d to %s", rank, command).startsWith(answer);
    }
  }

  @Test
  void whenARankIsKilledTheOthersNoticeAtOnceAndContinueWithoutIt() throws Exception {
    start(3, Duration.ofSeconds(30));
    assertAll("barrier 10000", "passed", 0, 1, 2);
    rank(0).send("barrier 20000");
    rank(2).send("gone 1");
    rank(1).kill();
    // Well below the liveness timeout: the end of the connection reports the death.
    assertThat(rank(0).answer())
        .startsWith(
            "PeerLostException: "
                + ErrorCode.PEER_LOST.message("barrier (collective number 2): rank 1 is gone: "))
        .contains("its process or the network failed");
    assertThat(rank(2).answer()).contains("its process or the network failed");
    rank(0).send("survivors 20000");
    rank(2).send("survivors 20000");
    assertThat(rank(0).answer()).isEqualTo("now 0/2");
    assertThat(rank(2).answer()).isEqualTo("now 1/2");
    assertAll("barrier 10000", "passed", 0, 2);
    assertAll("close", "closed", 0, 2);
  }

  @Test
  void whenTheHostOfTheRendezvousIsKilledTheOthersNoticeAtOnceAndElectAnother() throws Exception {
    start(4, Duration.ofSeconds(30));
    rank(1).send("barrier 20000");
    rank(2).send("gone 0");
    rank(0).kill();
    assertThat(rank(1).answer())
        .startsWith(
            "PeerLostException: "
                + ErrorCode.PEER_LOST.message("barrier (collective number 1): rank 0 is gone: "))
        .contains("it hosted the rendezvous, ");
    assertThat(rank(2).answer()).startsWith("it hosted the rendezvous, ");
    assertAll("survivors 20000", "now ", 1, 2, 3);
    assertAll("barrier 10000", "passed", 1, 2, 3);
    // The new host may die too, and another rank before its death is noticed.
    rank(1).kill();
    rank(3).kill();
    assertThat(rank(2).ask("gone 0")).startsWith("it hosted the rendezvous, ");
    assertThat(rank(2).ask("survivors 20000")).isEqualTo("now 0/1");
    assertThat(rank(2).ask("barrier 1000")).isEqualTo("passed");
  }

  @Test
  void theHostKilledWhileSurvivorsGatherIsReplaced() throws Exception {
    start(4, Duration.ofSeconds(30));
    rank(3).kill();
    assertThat(rank(1).ask("gone 3")).contains("its process or the network failed");
    // Both wait for rank 0, which would host but does not call.
    rank(1).send("survivors 20000");
    rank(2).send("survivors 20000");
    Thread.sleep(300);
    rank(0).kill();
    assertThat(rank(1).answer()).isEqualTo("now 0/2");
    assertThat(rank(2).answer()).isEqualTo("now 1/2");
    assertAll("barrier 10000", "passed", 1, 2);
  }

  @Test
  void aStoppedRankIsDeclaredDeadAndNotifiedWhenItResumes() throws Exception {
    start(3, Duration.ofSeconds(4));
    rank(2).stop();
    Thread.sleep(200);
    rank(2).resume();
    // A pause this short is tolerated.
    assertAll("barrier 10000", "passed", 0, 1, 2);
    rank(2).stop();
    rank(0).send("gone 2");
    rank(1).send("barrier 20000");
    assertThat(rank(0).answer()).startsWith("it was silent for ");
    assertThat(rank(1).answer()).contains("rank 2 is gone: it was silent for ");
    rank(2).resume();
    assertThat(rank(2).ask("gone 2"))
        .startsWith("declared dead by the rendezvous: it was silent for ");
    assertThat(rank(2).ask("barrier 10000"))
        .startsWith(
            "PeerLostException: "
                + ErrorCode.PEER_LOST.message(
                    "barrier (collective number 2): rank 2 is gone: declared"));
    assertThat(rank(2).ask("survivors 10000"))
        .startsWith(
            "PeerLostException: "
                + ErrorCode.RANK_LOST.message("survivors: this rank (2) is out of the group"));
    assertAll("survivors 20000", "now ", 0, 1);
    assertAll("barrier 10000", "passed", 0, 1);
  }

  @Test
  void aStoppedHostIsDeclaredDeadAndNotifiedWhenItResumes() throws Exception {
    start(3, Duration.ofSeconds(4));
    rank(0).stop();
    assertAll("gone 0", "it hosted the rendezvous, it was silent for ", 1, 2);
    // Rank 0's peer port still accepts, and does not answer.
    assertAll("survivors 20000", "now ", 1, 2);
    assertAll("barrier 10000", "passed", 1, 2);
    rank(0).resume();
    assertThat(rank(0).ask("gone 0")).contains("silent").contains("dead");
    assertThat(rank(0).ask("survivors 3000"))
        .startsWith(
            "PeerLostException: "
                + ErrorCode.RANK_LOST.message("survivors: this rank (0) is out of the group"));
    assertAll("barrier 10000", "passed", 1, 2);
  }

  @Test
  void theHostStoppedWhileRanksWaitAtItsRendezvousIsReplaced() throws Exception {
    start(4, Duration.ofSeconds(4));
    rank(0).send("survivors 60000");
    rank(1).send("survivors 9000");
    rank(2).send("survivors 60000");
    // They wait for rank 3 at the rendezvous of rank 0.
    Thread.sleep(2000);
    rank(0).stop();
    // It is not rank 3 that is missing.
    assertThat(rank(1).answer())
        .startsWith(
            "GroupTimeoutException: "
                + ErrorCode.SURVIVORS_TIMEOUT.message(
                    "survivors: rank 0, which hosts the rendezvous, does not answer there"));
    rank(1).send("survivors 60000");
    rank(3).send("survivors 60000");
    for (int rank = 1; rank < 4; rank++) {
      assertThat(rank(rank).answer()).isEqualTo("now " + (rank - 1) + "/3");
    }
    rank(0).resume();
    assertThat(rank(0).answer())
        .startsWith(
            "PeerLostException: "
                + ErrorCode.RANK_LOST.message("survivors: this rank (0) is out of the group"));
    assertAll("barrier 10000", "passed", 1, 2, 3);
  }

  @Test
  void ranksContinueWithoutAKilledLauncher() throws Exception {
    try (RankProcess launcher = new RankProcess(Map.of(), "host", "2")) {
      int port = Integer.parseInt(launcher.answer().substring("port ".length()));
      for (int rank = 0; rank < 2; rank++) {
        GroupConfig config = TcpWorld.rankOneAt(2, port).rank(rank).build();
        start(LaunchEnvironment.variables(config, rank));
      }
      assertThat(rank(0).answer()).startsWith("joined 0/2 ");
      assertThat(rank(1).answer()).startsWith("joined 1/2 ");
      assertAll("barrier 10000", "passed", 0, 1);
      rank(0).send("barrier 20000");
      launcher.kill();
    }
    assertThat(rank(0).answer())
        .startsWith(
            "PeerLostException: "
                + ErrorCode.RENDEZVOUS_LOST.message(
                    "barrier (collective number 2): the rendezvous is lost ("));
    assertAll("survivors 20000", "now ", 0, 1);
    assertAll("barrier 10000", "passed", 0, 1);
  }

  @Test
  void torchrunVariablesWithoutASecretAreEnough() throws Exception {
    String port = Integer.toString(TcpWorld.freePort());
    for (int rank = 0; rank < 2; rank++) {
      start(
          Map.of(
              "RANK",
              Integer.toString(rank),
              "WORLD_SIZE",
              "2",
              "LOCAL_RANK",
              Integer.toString(rank),
              "MASTER_ADDR",
              "127.0.0.1",
              "MASTER_PORT",
              port));
    }
    assertThat(rank(0).answer()).startsWith("joined 0/2 ");
    assertThat(rank(1).answer()).startsWith("joined 1/2 ");
    assertAll("barrier 10000", "passed", 0, 1);
    // One after the other, the host first.
    assertThat(rank(0).ask("close")).isEqualTo("closed");
    assertThat(rank(1).ask("gone 0")).startsWith("left the group in good order");
    assertThat(rank(1).ask("close")).isEqualTo("closed");
  }
}
