package org.ep4j.memory;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import java.io.IOException;
import java.io.RandomAccessFile;
import java.io.UncheckedIOException;
import java.nio.channels.FileChannel;
import java.nio.file.DirectoryStream;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.nio.file.attribute.PosixFilePermissions;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.concurrent.FutureTask;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import org.ep4j.engine.host.kernel.ForkedJvm;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;

/** Names of shared files while a sweeper removes them. */
class SharedFilesTest {
  private static final String JOB = "test" + ProcessHandle.current().pid();
  private static final int ENOUGH = 5;
  private static final Duration DEADLINE = Duration.ofSeconds(10);

  /** For two threads that meet by chance, on a machine whose cores are taken. */
  private static final Duration BUSY = Duration.ofSeconds(60);

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
    Set<Path> made = new HashSet<>();
    Set<Path> lost = Set.of();
    long end = System.nanoTime() + BUSY.toNanos();
    try {
      while (lost.size() < ENOUGH && System.nanoTime() < end) {
        SharedFiles.Owned file = SharedFiles.create(JOB, 0);
        assertThat(made.add(file.path())).as("another name").isTrue();
        file.channel().close();
        Files.deleteIfExists(file.path());
        // Removed, but never returned: create() has started again.
        lost = new HashSet<>(removed);
        lost.removeAll(made);
      }
    } finally {
      done.set(true);
      remover.join();
    }
    assertThat(removed).doesNotHaveDuplicates();
    assertThat(lost).as("started again").isNotEmpty();
  }

  /** A sweeper that is stopped keeps the lock. */
  @Test
  @Timeout(60)
  void theLockOfANewFileIsNotAwaitedForever(@TempDir Path folder) throws Exception {
    Path file = Files.createFile(folder.resolve("new"));
    Path sign = folder.resolve("locked");
    FutureTask<Void> holder =
        new FutureTask<>(
            () -> {
              ForkedJvm.run(LockHolder.class, List.of(), List.of(file.toString(), sign.toString()));
              return null;
            });
    Thread.ofPlatform().daemon().start(holder);
    while (!Files.exists(sign)) {
      assertThat(holder.isDone()).as("the holder has ended").isFalse();
      Thread.sleep(5);
    }
    try (FileChannel channel = FileChannel.open(file, StandardOpenOption.WRITE)) {
      assertThatThrownBy(() -> SharedFiles.lock(channel, file, Duration.ofMillis(50)))
          .isInstanceOf(IOException.class)
          .hasMessageContaining(file.toString())
          .hasMessageContaining("another process");
      Files.delete(sign);
      SharedFiles.lock(channel, file, Duration.ofSeconds(30));
    }
    holder.get();
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

  /** Any user can make these names in a directory that all users write, and can guess the next. */
  @Test
  void namesThatOthersHaveMadeAreNeitherOpenedNorAnError(@TempDir Path home) throws Exception {
    SharedFiles.Owned first = SharedFiles.create(JOB, 7);
    Matcher name = Pattern.compile("(.*-)(\\d+)-7").matcher(first.path().toString());
    assertThat(name.matches()).isTrue();
    long number = Long.parseLong(name.group(2));
    Path target = Files.writeString(home.resolve("precious"), "precious");
    List<Path> made = new ArrayList<>();
    for (long next = number + 1; next <= number + 3; next++) {
      made.add(Path.of(name.group(1) + next + "-7"));
    }
    Files.createSymbolicLink(made.get(0), target);
    Files.createSymbolicLink(made.get(1), home.resolve("absent"));
    Files.createDirectory(made.get(2));
    try {
      SharedFiles.Owned second = SharedFiles.create(JOB, 7);
      assertThat(made).doesNotContain(second.path());
      assertThat(second.path()).isRegularFile();
      assertThat(Files.getPosixFilePermissions(second.path()))
          .isEqualTo(PosixFilePermissions.fromString("rw-------"));
      second.channel().close();
      Files.delete(second.path());
      assertThat(home.resolve("absent")).doesNotExist();
      assertThat(target).hasContent("precious");
    } finally {
      first.channel().close();
      Files.delete(first.path());
      for (Path path : made) {
        Files.delete(path);
      }
    }
  }

  /** To open a pipe without a reader lasts forever: a sweep that does so is released again. */
  @Test
  void sweepingDoesNotOpenPipesLinksAndFilesOfOtherUsers(@TempDir Path home) throws Exception {
    String prefix = SharedFiles.directory() + "/ep4j-" + JOB + "-swept-";
    Path pipe = Path.of(prefix + "pipe");
    Path target = home.resolve("pipe");
    for (Path at : List.of(pipe, target)) {
      assertThat(new ProcessBuilder("mkfifo", at.toString()).start().waitFor()).isZero();
    }
    Path link = Files.createSymbolicLink(Path.of(prefix + "link"), target);
    Path foreign = Files.createFile(Path.of(prefix + "foreign"));
    try {
      if (Libc.effectiveUser() == 0) {
        Files.setAttribute(foreign, "unix:uid", 65_534);
      }
      Thread sweep = Thread.ofPlatform().daemon().start(SharedFiles::removeAbandoned);
      boolean ended = sweep.join(DEADLINE);
      if (!ended) {
        release(sweep, pipe, target);
      }
      assertThat(ended).as("the sweep opened no pipe").isTrue();
      assertThat(link).isSymbolicLink();
      assertThat(pipe).exists();
      assertThat(Files.exists(foreign)).isEqualTo(Libc.effectiveUser() == 0);
    } finally {
      Files.deleteIfExists(link);
      Files.deleteIfExists(pipe);
      Files.deleteIfExists(foreign);
    }
  }

  /** Opens pipes at both ends, which never blocks, until a thread that waits for one ends. */
  private static void release(Thread thread, Path... pipes) throws Exception {
    List<RandomAccessFile> ends = new ArrayList<>();
    for (Path pipe : pipes) {
      ends.add(new RandomAccessFile(pipe.toFile(), "rw"));
    }
    thread.join(DEADLINE);
    for (RandomAccessFile end : ends) {
      end.close();
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
