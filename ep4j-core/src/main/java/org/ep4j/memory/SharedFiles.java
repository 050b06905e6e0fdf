package org.ep4j.memory;

import java.io.IOException;
import java.nio.channels.FileChannel;
import java.nio.channels.FileLock;
import java.nio.channels.OverlappingFileLockException;
import java.nio.file.DirectoryIteratorException;
import java.nio.file.DirectoryStream;
import java.nio.file.FileAlreadyExistsException;
import java.nio.file.FileStore;
import java.nio.file.Files;
import java.nio.file.LinkOption;
import java.nio.file.NoSuchFileException;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.nio.file.attribute.PosixFilePermissions;
import java.time.Duration;
import java.util.Set;
import java.util.concurrent.atomic.AtomicLong;
import java.util.concurrent.locks.LockSupport;
import org.ep4j.error.FileProblem;
import org.jspecify.annotations.Nullable;

/**
 * Names of shared files. The owner creates (mode 0600) and locks a file, all ranks map it, and then
 * the name is removed. The lock distinguishes a live owner from a dead one.
 *
 * <p>Name: {@code ep4j-<job>-<pid>-<number>-<rank>}. A rank that is killed while the name exists
 * leaves the file without a lock: the surviving ranks of the job remove it when their open fails,
 * and the next open of any job on the host sweeps it.
 *
 * <p>No name is used twice: a sweeper opens, locks and removes a file in three steps, and the
 * removed name must still belong to the locked file.
 *
 * <p>Other users may write into the directory. A name that one of them has made is left alone, and
 * never opened: it may be a link to another file, or a pipe without a reader.
 */
final class SharedFiles {
  private static final String PREFIX = "ep4j-";

  /** Names that others may have made before the next one counts as an error. */
  private static final int MAX_TAKEN = 1000;

  /** A sweeper holds the lock of a file for microseconds, unless it is stopped. */
  private static final Duration LOCKING = Duration.ofSeconds(5);

  /** Pause between two attempts to lock a file. */
  private static final long LOOK_NANOS = 1_000_000;

  private static final AtomicLong NUMBER = new AtomicLong();

  private SharedFiles() {}

  /** Directory of the shared memory of this process. */
  static Path directory() {
    return SymmetricMemory.directory(System.getenv());
  }

  /** How much space the directory has, for messages. */
  static String freeText() {
    Path directory = directory();
    try {
      FileStore store = Files.getFileStore(directory);
      return "%s has %d of %d bytes free"
          .formatted(directory, store.getUsableSpace(), store.getTotalSpace());
    } catch (IOException e) {
      return "the free space of " + directory + " is unknown (" + FileProblem.of(e) + ")";
    }
  }

  /** A name that was never used before. */
  private static String name(String job, int rank) {
    return PREFIX
        + job
        + "-"
        + ProcessHandle.current().pid()
        + "-"
        + NUMBER.getAndIncrement()
        + "-"
        + rank;
  }

  /**
   * A new file of a rank.
   *
   * @param path its name
   * @param channel holds the lock until it is closed
   * @param descriptor of the channel; -1 if /proc does not tell
   */
  record Owned(Path path, FileChannel channel, int descriptor) {}

  /** Creates and locks a file. */
  static Owned create(String job, int rank) throws IOException {
    int taken = 0;
    while (true) {
      Path file = directory().resolve(name(job, rank));
      FileChannel channel;
      try {
        channel =
            FileChannel.open(
                file,
                Set.of(
                    StandardOpenOption.CREATE_NEW,
                    StandardOpenOption.READ,
                    StandardOpenOption.WRITE),
                PosixFilePermissions.asFileAttribute(PosixFilePermissions.fromString("rw-------")));
      } catch (FileAlreadyExistsException e) {
        taken++;
        if (taken == MAX_TAKEN) {
          throw e;
        }
        continue;
      }
      boolean owned = false;
      try {
        lock(channel, file, LOCKING);
        owned = Files.exists(file);
        if (owned) {
          return new Owned(file, channel, descriptor(file));
        }
        // A sweeper removed the file between its creation and our lock.
      } finally {
        if (!owned) {
          channel.close();
          Files.deleteIfExists(file);
        }
      }
    }
  }

  /**
   * Waits for the lock of a new file, which a sweeper holds while it removes the name.
   *
   * @throws java.nio.channels.ClosedByInterruptException if the thread is interrupted
   * @throws IOException if it is still held after the limit
   */
  static void lock(FileChannel channel, Path file, Duration limit) throws IOException {
    long end = System.nanoTime() + limit.toNanos();
    while (channel.tryLock() == null) {
      if (System.nanoTime() - end > 0) {
        throw new IOException(
            "another process has locked the new file %s for %d ms: look for a stopped process that has it open (fuser)"
                .formatted(file, limit.toMillis()));
      }
      LockSupport.parkNanos(LOOK_NANOS);
    }
  }

  /** A descriptor of this process for a file that still has a name; -1 if none is found. */
  private static int descriptor(Path file) {
    try {
      Path name = file.toRealPath();
      try (DirectoryStream<Path> all = Files.newDirectoryStream(Path.of("/proc/self/fd"))) {
        for (Path descriptor : all) {
          if (Files.isSymbolicLink(descriptor) && name.equals(target(descriptor))) {
            return Integer.parseInt(String.valueOf(descriptor.getFileName()));
          }
        }
      }
    } catch (IOException e) {
      // /proc is missing or not readable.
    }
    return -1;
  }

  /**
   * A path by which other processes of the host open this file after its name is removed: that of
   * its open descriptor. Empty if /proc lacks it.
   */
  static String descriptorPath(Owned file) {
    return file.descriptor() < 0
        ? ""
        : "/proc/" + ProcessHandle.current().pid() + "/fd/" + file.descriptor();
  }

  private static @Nullable Path target(Path descriptor) {
    try {
      return Files.readSymbolicLink(descriptor);
    } catch (IOException e) {
      // The descriptor was closed meanwhile.
      return null;
    }
  }

  /** Removes the files of a job whose open failed. */
  static void removeJob(String job) {
    sweep(PREFIX + job + "-*", false);
  }

  /** Removes files of any job whose owner is dead. */
  static void removeAbandoned() {
    sweep(PREFIX + "*", true);
  }

  private static void sweep(String pattern, boolean onlyAbandoned) {
    String own = "-" + ProcessHandle.current().pid() + "-";
    try (DirectoryStream<Path> files = Files.newDirectoryStream(directory(), pattern)) {
      for (Path file : files) {
        try {
          if (!FileOwner.isOwn(file)) {
            continue;
          }
          if (!onlyAbandoned) {
            Files.deleteIfExists(file);
          } else if (!file.toString().contains(own)) {
            // Opening and closing our own file would release our own lock (POSIX record locks).
            removeIfAbandoned(file);
          }
        } catch (IOException e) {
          // It is a directory, or another sweeper is faster: the files behind it still count.
        }
      }
    } catch (IOException | DirectoryIteratorException e) {
      // The directory cannot be read: the next open sweeps again.
    }
  }

  /**
   * Removes a file that is not locked. The lock is held meanwhile: an owner that has created but
   * not yet locked the file waits for the lock, then sees that the name is gone, and creates
   * another file.
   */
  private static void removeIfAbandoned(Path file) throws IOException {
    try (FileChannel channel =
            FileChannel.open(file, StandardOpenOption.WRITE, LinkOption.NOFOLLOW_LINKS);
        FileLock lock = channel.tryLock()) {
      if (lock != null) {
        Files.deleteIfExists(file);
      }
    } catch (NoSuchFileException | OverlappingFileLockException e) {
      // The file is gone, or another buffer of this process has locked it: not abandoned.
    }
  }
}
