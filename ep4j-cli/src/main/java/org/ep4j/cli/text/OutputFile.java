package org.ep4j.cli.text;

import java.io.IOException;
import java.io.OutputStream;
import java.io.UncheckedIOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;
import java.nio.file.StandardOpenOption;
import java.time.Duration;
import java.util.Set;
import java.util.UUID;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.FutureTask;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import org.ep4j.error.ErrorCode;
import org.ep4j.error.FileProblem;

/**
 * A file that the user names for results.
 *
 * <p>{@code -} is standard output. A regular file appears whole or not at all: its text is written
 * beside it and moved into place, behind symbolic links at their target. Everything else, such as a
 * device or a named pipe, stays what it is: the text is written into it.
 */
public final class OutputFile {
  private static final String DASH = "-";

  /** Other names of standard output. A file behind them must not be replaced under its writers. */
  private static final Set<String> STANDARD_OUTPUT =
      Set.of(DASH, "/dev/stdout", "/dev/fd/1", "/proc/self/fd/1");

  /** A named pipe without a reader blocks its writer. */
  private static final Duration LONGEST_WRITE = Duration.ofSeconds(60);

  private static final int MAX_LINKS = 40;

  private final Path path;

  public OutputFile(Path path) {
    this.path = path;
  }

  /** Whether the results belong to standard output. */
  public boolean isStandardOutput() {
    return STANDARD_OUTPUT.contains(path.toString());
  }

  /**
   * The reason why the file cannot be written, with a remedy; empty if none is known. Serves as a
   * check before work that takes long, and changes nothing.
   */
  public String problem() {
    if (isStandardOutput()) {
      return "";
    }
    if (Files.isDirectory(path)) {
      return "is a directory: name a file in it";
    }
    if (isWrittenInto(path)) {
      return Files.isWritable(path) ? "" : "is not writable: name another file";
    }
    Path target;
    try {
      target = target(path);
    } catch (IOException e) {
      return e.getMessage() + ": name another file";
    }
    Path directory = target.toAbsolutePath().resolveSibling(".");
    if (!Files.isDirectory(directory)) {
      return "its directory does not exist: create it first";
    }
    return Files.isWritable(directory) ? "" : "its directory is not writable: name another";
  }

  /** Whether both lead to one place. Neither has a {@link #problem()}. */
  public boolean isSameAs(OutputFile other) {
    if (isStandardOutput() || other.isStandardOutput()) {
      return isStandardOutput() && other.isStandardOutput();
    }
    try {
      return place().equals(other.place());
    } catch (IOException e) {
      throw new UncheckedIOException(
          ErrorCode.OUTPUT_NOT_WRITTEN.message(path + ": cannot be written: " + FileProblem.of(e)),
          e);
    }
  }

  /** The path without links, which need not exist. */
  private Path place() throws IOException {
    Path target = target(path);
    return target.toAbsolutePath().resolveSibling(".").toRealPath().resolve(target.getFileName());
  }

  /** Writes the text. */
  public void write(String text) {
    byte[] bytes = text.getBytes(StandardCharsets.UTF_8);
    try {
      if (isStandardOutput()) {
        System.out.write(bytes);
        System.out.flush();
      } else if (isWrittenInto(path)) {
        writeInto(bytes);
      } else {
        replace(target(path), bytes);
      }
    } catch (IOException e) {
      throw new UncheckedIOException(
          ErrorCode.OUTPUT_NOT_WRITTEN.message(path + ": cannot be written: " + FileProblem.of(e)),
          e);
    }
  }

  /** Whether the path is neither missing nor a regular file, links resolved. */
  private static boolean isWrittenInto(Path path) {
    return Files.exists(path) && !Files.isRegularFile(path);
  }

  /**
   * The path that symbolic links lead to, which need not exist.
   *
   * @throws IOException if links lead in a circle
   */
  public static Path target(Path path) throws IOException {
    Path target = path;
    for (int links = 0; Files.isSymbolicLink(target); links++) {
      if (links == MAX_LINKS) {
        throw new IOException("its symbolic links lead in a circle");
      }
      target = target.resolveSibling(Files.readSymbolicLink(target));
    }
    return target;
  }

  /**
   * The name of the unfinished file is random: process ids are the same in many containers, which
   * may share the directory.
   */
  private static void replace(Path target, byte[] bytes) throws IOException {
    Path unfinished =
        target.resolveSibling(target.getFileName() + "." + UUID.randomUUID() + ".unfinished");
    unfinished.toFile().deleteOnExit(); // a signal ends the JVM without the finally block
    try {
      Files.write(unfinished, bytes, StandardOpenOption.CREATE_NEW, StandardOpenOption.WRITE);
      if (Files.exists(target)) {
        Files.setPosixFilePermissions(unfinished, Files.getPosixFilePermissions(target));
      }
      Files.move(unfinished, target, StandardCopyOption.ATOMIC_MOVE);
    } finally {
      Files.deleteIfExists(unfinished);
    }
  }

  /** Writes into a device or a pipe, on a thread that may be left behind in the system call. */
  private void writeInto(byte[] bytes) throws IOException {
    FutureTask<Void> writing =
        new FutureTask<>(
            () -> {
              try (OutputStream out = Files.newOutputStream(path, StandardOpenOption.WRITE)) {
                out.write(bytes);
              }
              return null;
            });
    Thread.ofPlatform().daemon().name("ep4j-write-output").start(writing);
    try {
      writing.get(LONGEST_WRITE.toSeconds(), TimeUnit.SECONDS);
    } catch (TimeoutException e) {
      throw new IOException(
          "no process read it for " + LONGEST_WRITE.toSeconds() + " s: start its reader first", e);
    } catch (InterruptedException e) {
      Thread.currentThread().interrupt();
      throw new IOException("interrupted", e);
    } catch (ExecutionException e) {
      throw e.getCause() instanceof IOException cause ? cause : new IOException(e.getCause());
    }
  }

  @Override
  public String toString() {
    return path.toString();
  }
}
