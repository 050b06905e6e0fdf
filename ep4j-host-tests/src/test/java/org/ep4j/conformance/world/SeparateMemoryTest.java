package org.ep4j.conformance.world;

import static org.assertj.core.api.Assertions.assertThat;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.List;
import java.util.Map;
import org.ep4j.memory.SymmetricMemory;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/**
 * Processes of one host whose directories of shared memory are different directories of one file
 * system, as pods with {@code subPath} volumes have them.
 */
class SeparateMemoryTest {
  private static final Duration LIMIT = Duration.ofMinutes(2);

  @TempDir Path shared;

  @Test
  void directoriesOfOneFileSystemMakeTwoNodesAndAWarningNamesTheRemedy() throws IOException {
    Path[] directories = {
      Files.createDirectory(shared.resolve("a")), Files.createDirectory(shared.resolve("b"))
    };
    assertThat(Files.getAttribute(directories[0], "unix:dev"))
        .isEqualTo(Files.getAttribute(directories[1], "unix:dev"));

    try (RankProcesses ranks = start(directories)) {
      ranks.awaitSuccess(LIMIT);

      for (int rank = 0; rank < directories.length; rank++) {
        assertThat(ranks.output(rank)).contains("the wire is tcp", "rows received: 2", "done");
      }
      assertThat(ranks.output(0))
          .contains(
              "ranks 0 and 1 run on one host but do not share " + directories[0],
              "different nodes and reach each other over a wire",
              "give them one /dev/shm (hostIPC, --ipc=host or a shared volume of memory)",
              SymmetricMemory.DIRECTORY_VARIABLE);
    }
  }

  @Test
  void oneDirectoryMakesOneNodeWithoutAWarning() {
    try (RankProcesses ranks = start(shared, shared)) {
      ranks.awaitSuccess(LIMIT);

      for (int rank = 0; rank < 2; rank++) {
        assertThat(ranks.output(rank))
            .contains("the wire is shm", "rows received: 2", "done")
            .doesNotContain("do not share");
      }
    }
  }

  private static RankProcesses start(Path... directories) {
    return new ProcessWorld()
        .start(
            directories.length,
            SeparateMemoryJob.class,
            List.of(),
            rank -> Map.of(SymmetricMemory.DIRECTORY_VARIABLE, directories[rank].toString()));
  }
}
