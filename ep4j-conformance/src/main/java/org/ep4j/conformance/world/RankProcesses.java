package org.ep4j.conformance.world;

import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.TimeUnit;
import java.util.stream.Collectors;
import java.util.stream.IntStream;
import java.util.stream.Stream;
import org.ep4j.group.rendezvous.Rendezvous;
import org.ep4j.memory.SymmetricMemory;

/** The processes of one job, their output, and the rendezvous between them. */
public final class RankProcesses implements AutoCloseable {
  private static final Duration POLL = Duration.ofMillis(20);
  private static final Duration REPORT_INTERVAL = Duration.ofSeconds(1);
  private static final Duration END = Duration.ofSeconds(10);
  private static final int TAIL = 16_000;

  /** No rank. */
  private static final int NONE = -1;

  private final Rendezvous rendezvous;
  private final List<Process> processes = new ArrayList<>();
  private final List<Path> outputs = new ArrayList<>();
  private final List<Start> starts = new ArrayList<>();
  private final List<Path> finished = new ArrayList<>();

  /** Per rank, number of output characters that {@link #reportSlowCases} has read. */
  private final List<Integer> lookedAt = new ArrayList<>();

  /** Start parameters of a rank. */
  private record Start(List<String> command, Map<String, String> variables) {}

  RankProcesses(Rendezvous rendezvous) {
    this.rendezvous = rendezvous;
  }

  int port() {
    return rendezvous.address().getPort();
  }

  void add(List<String> command, Map<String, String> variables) {
    Path output = output();
    outputs.add(output);
    lookedAt.add(0);
    processes.add(start(command, variables, output));
    starts.add(new Start(command, variables));
  }

  /**
   * Starts a process that replaces an ended one, with its command and variables; discards the
   * output of the old process.
   *
   * @param more variables in addition to these
   */
  public void restart(int rank, Map<String, String> more) {
    awaitExit(rank, END);
    Start first = starts.get(rank);
    Map<String, String> variables = new HashMap<>(first.variables);
    variables.putAll(more);
    finished.add(outputs.get(rank));
    outputs.set(rank, output());
    lookedAt.set(rank, 0);
    processes.set(rank, start(first.command, variables, outputs.get(rank)));
  }

  private static Path output() {
    try {
      return Files.createTempFile("ep4j-rank", ".txt");
    } catch (IOException e) {
      throw new UncheckedIOException("no file for the output of a rank: " + e, e);
    }
  }

  private static Process start(List<String> command, Map<String, String> variables, Path output) {
    try {
      ProcessBuilder builder = new ProcessBuilder(command);
      builder.environment().putAll(variables);
      builder.redirectErrorStream(true).redirectOutput(output.toFile());
      return builder.start();
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

  /** Process id of a rank. */
  public long pid(int rank) {
    return processes.get(rank).pid();
  }

  /** Whether a rank is running. */
  public boolean isAlive(int rank) {
    return processes.get(rank).isAlive();
  }

  /** Output of a rank so far, standard output and error; libraries may write any bytes. */
  public String output(int rank) {
    try {
      return new String(Files.readAllBytes(outputs.get(rank)), StandardCharsets.UTF_8);
    } catch (IOException e) {
      throw new UncheckedIOException(e);
    }
  }

  /**
   * Waits for a rank to end.
   *
   * @return its exit code
   * @throws IllegalStateException if the rank still runs after {@code limit}; names its position
   */
  public int awaitExit(int rank, Duration limit) {
    try {
      if (!processes.get(rank).waitFor(limit.toMillis(), TimeUnit.MILLISECONDS)) {
        askForStacks(rank);
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

  /** A JVM that gets this signal writes the stacks of its threads. */
  private void askForStacks(int rank) throws InterruptedException {
    try {
      Process kill = new ProcessBuilder("kill", "-QUIT", String.valueOf(pid(rank))).start();
      if (kill.waitFor(END.toMillis(), TimeUnit.MILLISECONDS)) {
        Thread.sleep(REPORT_INTERVAL);
      }
    } catch (IOException e) {
      // The caller reports the running rank even without stacks.
      System.out.println("no stacks of rank " + rank + ": " + e);
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

  /**
   * Waits until all ranks have written {@code text}.
   *
   * @param except a rank that need not; -1 for none
   */
  public void awaitOutputs(String text, int except, Duration limit) {
    for (int rank = 0; rank < ranks(); rank++) {
      if (rank != except) {
        awaitOutput(rank, text, limit);
      }
    }
  }

  /** Output of all ranks so far. */
  public String outputs() {
    return IntStream.range(0, ranks())
        .mapToObj(rank -> "rank " + rank + " wrote:\n" + output(rank))
        .collect(Collectors.joining("\n"));
  }

  /** Shared files of the job that still have a name. */
  public List<Path> leftFiles() {
    // The ranks have the environment of this process and their own variables.
    Path shared = SymmetricMemory.directory(System.getenv());
    if (!Files.isDirectory(shared)) {
      return List.of();
    }
    try (Stream<Path> files = Files.list(shared)) {
      return files.filter(file -> file.toString().contains(jobId())).toList();
    } catch (IOException e) {
      throw new UncheckedIOException(e);
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

  /** Lines of the ranks about slow cases, each line once. */
  List<String> reportSlowCases() {
    List<String> reports = new ArrayList<>();
    for (int rank = 0; rank < ranks(); rank++) {
      String output = output(rank);
      int end = output.lastIndexOf('\n') + 1;
      output
          .substring(lookedAt.get(rank), end)
          .lines()
          .filter(line -> line.contains(CaseWatchdog.STILL) || line.contains(CaseWatchdog.ENDED))
          .forEach(reports::add);
      lookedAt.set(rank, end);
    }
    return reports;
  }

  /**
   * Waits until all ranks have succeeded; the first failure ends the wait. Forwards the lines of
   * the ranks about slow cases meanwhile.
   */
  public void awaitSuccess(Duration limit) {
    long begin = System.nanoTime();
    long end = begin + limit.toNanos();
    long nextReport = begin + REPORT_INTERVAL.toNanos();
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
                  + tail(rank)
                  + "\n"
                  + tails(rank));
        }
      }
      if (running && System.nanoTime() > end) {
        throw new IllegalStateException(
            "ranks still run after " + limit.toSeconds() + " s; " + tails(NONE));
      }
      if (System.nanoTime() > nextReport) {
        nextReport = System.nanoTime() + REPORT_INTERVAL.toNanos();
        reportSlowCases().forEach(System.out::println);
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

  /** Output of running and of failed ranks, except one rank or {@link #NONE}. */
  private String tails(int but) {
    return IntStream.range(0, ranks())
        .filter(rank -> rank != but && (isAlive(rank) || processes.get(rank).exitValue() != 0))
        .mapToObj(rank -> "rank " + rank + " wrote:\n" + tail(rank))
        .collect(Collectors.joining("\n"));
  }

  private static void pause() {
    try {
      Thread.sleep(POLL);
    } catch (InterruptedException e) {
      Thread.currentThread().interrupt();
      throw new IllegalStateException("interrupted while waiting for ranks", e);
    }
  }

  /** Kills the running processes. Idempotent. */
  @Override
  public void close() {
    processes.forEach(Process::destroyForcibly);
    for (int rank = 0; rank < ranks(); rank++) {
      awaitExit(rank, END);
    }
    rendezvous.close();
    finished.addAll(outputs);
    outputs.clear();
    for (Path output : finished) {
      try {
        Files.deleteIfExists(output);
      } catch (IOException e) {
        throw new UncheckedIOException(e);
      }
    }
  }
}
