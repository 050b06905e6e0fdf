package org.ep4j.rdma.verbs;

import static org.assertj.core.api.Assertions.assertThat;

import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.List;
import java.util.Map;
import org.ep4j.conformance.ProcessWorld;
import org.ep4j.conformance.RankProcesses;
import org.ep4j.memory.SymmetricMemory;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.condition.EnabledIfEnvironmentVariable;

/**
 * The wire {@code auto} between two processes that share no memory, which makes them ranks of two
 * hosts.
 */
@EnabledIfEnvironmentVariable(
    named = "EP4J_RXE_VM",
    matches = "1",
    disabledReason = "needs the simulated cables of tools/rxe-vm test")
class AutoTakesVerbsTest {
  private static final Duration LIMIT = Duration.ofMinutes(6);

  @Test
  void portsThatReachEachOtherAreTaken() {
    try (RankProcesses ranks = start()) {
      for (int rank = 0; rank < ranks.ranks(); rank++) {
        ranks.awaitOutput(rank, "the wire is ", LIMIT);
        assertThat(ranks.output(rank)).contains("the wire is verbs").doesNotContain("EP4J-5004");
      }
    }
  }

  @Test
  void activePortsWithoutAPathMakeAllRanksTakeTcpAndTheLogSaysWhy() throws Exception {
    // The ports stay active, but nothing passes: rank 0 has those of host a, rank 1 those of b.
    try {
      PairOfWires.link("loss", "100", "b0");
      PairOfWires.link("loss", "100", "b1");
      assertAllTakeTcp();
    } finally {
      PairOfWires.link("clear", "b0");
      PairOfWires.link("clear", "b1");
    }
  }

  private static void assertAllTakeTcp() {
    try (RankProcesses ranks = start()) {
      for (int rank = 0; rank < ranks.ranks(); rank++) {
        ranks.awaitOutput(rank, "the wire is ", LIMIT);
        assertThat(ranks.output(rank))
            .contains("the wire is tcp")
            .containsPattern("EP4J-5004: wire 'auto' takes tcp, and ports .*rxe_a0:1.* are idle")
            .containsPattern("rank [01] on host .*rank [01] on host .*rxe_[ab][01]:1");
      }
    }
  }

  private static RankProcesses start() {
    // Two file systems in memory.
    List<Path> directories = List.of(Path.of("/dev/shm"), Path.of("/run"));
    assertThat(device(directories.get(0))).isNotEqualTo(device(directories.get(1)));
    return new ProcessWorld(LIMIT, Duration.ofSeconds(30))
        .start(
            2,
            AutoWireJob.class,
            List.of(),
            rank -> Map.of(SymmetricMemory.DIRECTORY_VARIABLE, directories.get(rank).toString()));
  }

  private static Object device(Path directory) {
    try {
      return Files.getAttribute(directory, "unix:dev");
    } catch (IOException e) {
      throw new UncheckedIOException(e);
    }
  }
}
