package org.ep4j.conformance;

import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.TimeUnit;
import org.ep4j.group.Rendezvous;

/** The processes of one job, their output, and the rendezvous between them. */
public final class RankProcesses implements AutoCloseable {
  private static final Duration POLL = Duration.ofMillis(20);
  private static final Duration END = Duration.ofSeconds(10);
  private static final int TAIL = 4_000;

  private final Rendezvous rendezvous;
  private final List<Process> processes = new ArrayList<>();
  private final List<Path> outputs = new ArrayList<>();

  RankProcesses(Rendezvous rendezvous) {
    this.rendezvous = rendezvous;
  }

  int port() {
    return rendezvous.address().getPort();
  }

  void add(List<String> command, Map<String, String> variables) {
    try {
      Path output = Files.createTempFile("ep4j-rank", ".txt");
      outputs.add(output);
      ProcessBuilder builder = new ProcessBuilder(command);
      builder.environment().putAll(variables);
      builder.redirectErrorStream(true).redirectOutput(output.toFile());
      processes.add(builder.start());
    } catch (IOException e) {
      throw new UncheckedIOException("a rank cannot be started: " + e, e);
    }
  }

  /** Name of the job, as {@link org.ep4j.group.Group#jobId()}. */
  public String jobId() {
    return rendezvous.jobId();
  }

  /** Number of ranks. */
  public int ranks() {
    return processes.size();
  }

  /** {@code kill -9}. */
  public void kill(int rank) {
    processes.get(rank).destroyForcibly();
  }

  /** Process number of a rank. */
  public long pid(int rank) {
    return processes.get(rank).pid();
  }

  /** Whether a rank still runs. */
  public boolean isAlive(int rank) {
    return processes.get(rank).isAlive();
  }

  /** What a rank has written so far, standard output and error. */
  public String output(int rank) {
    try {
      return Files.readString(outputs.get(rank));
    } catch (IOException e) {
      throw new UncheckedIOException(e);
    }
  }

  /**
   * Waits for a rank to end.
   *
   * @return its exit code
   * @throws IllegalStateException if it still runs after {@code limit}
   */
  public int awaitExit(int rank, Duration limit) {
    try {
      if (!processes.get(rank).waitFor(limit.toMillis(), TimeUnit.MILLISECONDS)) {
        throw new IllegalStateException(
            "rank "
                + rank
                + " still runs after "
                + limit.toSeconds()
                + " s; it wrote:\n"
                + tail(rank));
      }
      return processes.get(rank).exitValue();
    } catch (InterruptedException e) {
      Thread.currentThread().interrupt();
      throw new IllegalStateException("interrupted while waiting for rank " + rank, e);
    }
  }

  /** Waits until a rank has written {@code text}. */
  public void awaitOutput(int rank, String text, Duration limit) {
    long end = System.nanoTime() + limit.toNanos();
    while (!output(rank).contains(text)) {
      if (System.nanoTime() > end || !isAlive(rank)) {
        throw new IllegalStateException(
            "rank " + rank + " has not written '" + text + "', but:\n" + tail(rank));
      }
      pause();
    }
  }

  /** Waits until a rank has written more than {@code length} characters. */
  public void awaitMoreOutput(int rank, int length, Duration limit) {
    long end = System.nanoTime() + limit.toNanos();
    while (output(rank).length() <= length) {
      if (System.nanoTime() > end || !isAlive(rank)) {
        throw new IllegalStateException(
            "rank " + rank + " has written nothing more, but:\n" + tail(rank));
      }
      pause();
    }
  }

  /** Waits until all ranks have ended well; the first that fails ends the wait. */
  void awaitSuccess(Duration limit) {
    long end = System.nanoTime() + limit.toNanos();
    boolean running = true;
    while (running) {
      running = false;
      for (int rank = 0; rank < ranks(); rank++) {
        if (isAlive(rank)) {
          running = true;
        } else if (processes.get(rank).exitValue() != 0) {
          throw new IllegalStateException(
              "rank "
                  + rank
                  + " ended with "
                  + processes.get(rank).exitValue()
                  + "; it wrote:\n"
                  + tail(rank));
        }
      }
      if (running && System.nanoTime() > end) {
        throw new IllegalStateException("ranks still run after " + limit.toSeconds() + " s");
      }
      if (running) {
        pause();
      }
    }
  }

  private String tail(int rank) {
    String output = output(rank);
    return output.substring(Math.max(0, output.length() - TAIL));
  }

  private static void pause() {
    try {
      Thread.sleep(POLL);
    } catch (InterruptedException e) {
      Thread.currentThread().interrupt();
      throw new IllegalStateException("interrupted while waiting for ranks", e);
    }
  }

  /** Kills what still runs. Closing twice is harmless. */
  @Override
  public void close() {
    processes.forEach(Process::destroyForcibly);
    for (int rank = 0; rank < ranks(); rank++) {
      awaitExit(rank, END);
    }
    rendezvous.close();
    for (Path output : outputs) {
      try {
        Files.deleteIfExists(output);
      } catch (IOException e) {
        throw new UncheckedIOException(e);
      }
    }
  }
}
