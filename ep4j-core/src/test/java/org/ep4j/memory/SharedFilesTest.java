package org.ep4j.memory;

import static org.assertj.core.api.Assertions.assertThat;

import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.file.DirectoryStream;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.concurrent.atomic.AtomicBoolean;
import org.junit.jupiter.api.Test;

/** Names of shared files while a sweeper removes them. */
class SharedFilesTest {
  private static final String JOB = "test" + ProcessHandle.current().pid();
  private static final int ENOUGH = 50;
  private static final int MAX = 200_000;

  @Test
  void theEnvironmentNamesTheDirectoryOfSharedMemory() {
    assertThat(SymmetricMemory.directory(Map.of())).hasToString("/dev/shm");
    assertThat(SymmetricMemory.directory(Map.of("EP4J_SHM_DIR", " "))).hasToString("/dev/shm");
    assertThat(SymmetricMemory.directory(Map.of("EP4J_SHM_DIR", "/mnt/shared")))
        .hasToString("/mnt/shared");
  }

  @Test
  void anOwnerWhoseFileWasRemovedTakesAnotherName() throws Exception {
    List<Path> removed = new CopyOnWriteArrayList<>();
    AtomicBoolean done = new AtomicBoolean();
    Thread remover =
        Thread.ofPlatform()
            .daemon()
            .start(
                () -> {
                  while (!done.get()) {
                    remove(removed);
                    Thread.yield();
                  }
                });
    int made = 0;
    // More files are removed than were returned: create() has started again for the rest.
    while (removed.size() - made < ENOUGH && made < MAX) {
      SharedFiles.Owned file = SharedFiles.create(JOB, 0);
      made++;
      while (Files.exists(file.path())) {
        Thread.onSpinWait();
      }
      file.channel().close();
    }
    done.set(true);
    remover.join();
    assertThat(removed.size() - made).as("started again").isPositive();
    Set<Path> names = new HashSet<>(removed);
    assertThat(names).hasSameSizeAs(removed);
  }

  /** Another user's file cannot be opened; a directory cannot be opened by root either. */
  @Test
  void sweepingContinuesBehindAFileThatCannotBeOpened() throws Exception {
    String prefix = SharedFiles.directory() + "/ep4j-" + JOB + "-sweep-";
    // Before and behind the file, whether a directory lists new names first or last.
    Path before = Files.createDirectory(Path.of(prefix + "a"));
    Path abandoned = Files.createFile(Path.of(prefix + "b"));
    Path behind = Files.createDirectory(Path.of(prefix + "c"));
    try {
      SharedFiles.removeAbandoned();
      assertThat(abandoned).doesNotExist();
    } finally {
      Files.delete(before);
      Files.delete(behind);
      Files.deleteIfExists(abandoned);
    }
  }

  private static void remove(List<Path> removed) {
    try (DirectoryStream<Path> files =
        Files.newDirectoryStream(SharedFiles.directory(), "ep4j-" + JOB + "-*")) {
      for (Path file : files) {
        if (Files.deleteIfExists(file)) {
          removed.add(file);
        }
      }
    } catch (IOException e) {
      throw new UncheckedIOException(e);
    }
  }
}
