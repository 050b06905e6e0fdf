package org.ep4j.rdma.verbs;

import static org.assertj.core.api.Assertions.assertThat;

import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.stream.Stream;
import org.ep4j.conformance.world.ProcessWorld;
import org.ep4j.conformance.world.RankProcesses;
import org.ep4j.memory.SymmetricMemory;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.condition.EnabledIf;

/**
 * The wire {@code auto} between two processes that share no memory, which makes them ranks of two
 * hosts.
 */
@EnabledIf(value = "org.ep4j.rdma.verbs.Fabric#hasCables", disabledReason = Fabric.REASON)
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
            .containsPattern(
                "EP4J-5004: wire 'auto' takes tcp, and ports .*%s:1.* are idle"
                    .formatted(Fabric.device("a0")))
            .containsPattern(
                "rank [01] on host .*rank [01] on host .*%s:1"
                    .formatted(Fabric.device("[ab][01]")));
      }
    }
  }

  private static RankProcesses start() {
    List<Path> directories = fileSystems();
    assertThat(directories).hasSizeGreaterThanOrEqualTo(2);
    return new ProcessWorld(LIMIT, Duration.ofSeconds(30))
        .start(
            2,
            AutoWireJob.class,
            List.of(),
            rank -> Map.of(SymmetricMemory.DIRECTORY_VARIABLE, directories.get(rank).toString()));
  }

  /** A directory of each file system that ranks can keep memory in. */
  private static List<Path> fileSystems() {
    Map<Object, Path> byDevice = new LinkedHashMap<>();
    Stream.of("/dev/shm", "/run", System.getProperty("java.io.tmpdir"), "target")
        .map(Path::of)
        .filter(Files::isWritable)
        .forEach(directory -> byDevice.putIfAbsent(device(directory), directory.toAbsolutePath()));
    return List.copyOf(byDevice.values());
  }

  private static Object device(Path directory) {
    try {
      return Files.getAttribute(directory, "unix:dev");
    } catch (IOException e) {
      throw new UncheckedIOException(e);
    }
  }
}
