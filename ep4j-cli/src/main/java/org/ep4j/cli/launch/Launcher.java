package org.ep4j.cli.launch;

import java.io.IOException;
import java.lang.ProcessBuilder.Redirect;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import org.ep4j.cli.CommandFailure;
import org.ep4j.cli.ExitCodes;
import org.ep4j.cli.OpenFiles;
import org.ep4j.error.ErrorCode;

/**
 * Runs a process for each rank and ends all of them when one fails or when this process ends.
 *
 * <p>A process and its descendants first receive {@code SIGTERM}; those that still run after the
 * grace period are killed. Not thread-safe, except that another thread may call {@link #close}.
 */
public final class Launcher implements AutoCloseable {
  /** No time limit. */
  public static final Duration NO_LIMIT = Duration.ofDays(365);

  private static final Duration LAST_OUTPUT = Duration.ofSeconds(2);

  private record Ended(int rank, int exitCode) {}

  /** Variable of a rank that was restarted: how often. */
  public static final String RESTART = "EP4J_RESTART";

  private final Duration grace;
  private final OrphanGuard guard;

  /** The process of each rank; of a restarted rank the latest. */
  private final List<Process> processes = new ArrayList<>();

  private final List<Thread> relays = new ArrayList<>();
  private final BlockingQueue<Ended> ended = new LinkedBlockingQueue<>();
  private final Thread atExit = new Thread(this::close, "ep4j-end-ranks");
  private boolean ending;

  /**
   * @param grace time between SIGTERM and SIGKILL
   */
  public Launcher(Duration grace) {
    this.grace = grace;
    guard = OrphanGuard.start(grace);
    Runtime.getRuntime().addShutdownHook(atExit);
  }

  /**
   * Starts all ranks, waits until all have ended, and returns the outcome.
   *
   * @param limit time limit of the ranks
   */
  public Outcome run(List<RankProcess> ranks, Duration limit) throws InterruptedException {
    return run(ranks, limit, 0);
  }

  /**
   * The same with restarts of failed ranks, which the others outlive.
   *
   * @param restarts how often each rank may be restarted
   */
  public Outcome run(List<RankProcess> ranks, Duration limit, int restarts)
      throws InterruptedException {
    for (int rank = 0; rank < ranks.size(); rank++) {
      start(rank, ranks.get(rank));
    }
    int[] restarted = new int[ranks.size()];
    long end = System.nanoTime() + limit.toNanos();
    Outcome outcome = Outcome.SUCCESS;
    int running = ranks.size();
    while (running > 0) {
      Ended next = ended.poll(1, TimeUnit.SECONDS);
      boolean late = System.nanoTime() - end > 0;
      if (next != null
          && next.exitCode != 0
          && outcome.exitCode() == 0
          && restarted[next.rank] < restarts
          && !late) {
        restarted[next.rank]++;
        restart(ranks.get(next.rank), next, restarted[next.rank], restarts);
      } else if (next != null) {
        running--;
        if (next.exitCode != 0 && outcome.exitCode() == 0) {
          outcome = Outcome.failed(next.rank, next.exitCode);
          endAll();
        }
      } else if (late && outcome.exitCode() == 0) {
        outcome = Outcome.late(running, limit);
        endAll();
      }
    }
    long deadline = System.nanoTime() + LAST_OUTPUT.toNanos();
    for (Thread relay : relays) {
      // A grandchild may never close the pipe.
      relay.join(Duration.ofNanos(Math.max(1, deadline - System.nanoTime())));
    }
    return outcome;
  }

  private void restart(RankProcess what, Ended ended, int count, int restarts) {
    byte[] line =
        "ep4j: rank %d %s: restarted (%d of %d)"
            .formatted(ended.rank, Outcome.describe(ended.exitCode), count, restarts)
            .getBytes(StandardCharsets.UTF_8);
    what.err().line(line, line.length);
    Map<String, String> environment = new LinkedHashMap<>(what.environment());
    environment.put(RESTART, String.valueOf(count));
    start(ended.rank, new RankProcess(what.command(), environment, what.out(), what.err()));
  }

  private synchronized void start(int rank, RankProcess what) {
    if (ending) {
      throw new CommandFailure(
          ErrorCode.LAUNCH_INTERRUPTED, ExitCodes.PEER, "interrupted while it started ranks");
    }
    ProcessBuilder builder = new ProcessBuilder(what.command());
    builder.environment().putAll(what.environment());
    builder.redirectInput(Redirect.from(Path.of("/dev/null").toFile()));
    Process process;
    try {
      process = builder.start();
    } catch (IOException e) {
      if (OpenFiles.lackedBy(e)) {
        throw new CommandFailure(
            ErrorCode.FEW_OPEN_FILES,
            ExitCodes.PEER,
            "rank %d cannot be started, because no descriptor is free: raise the limit of open files (ulimit -n)"
                .formatted(rank),
            e);
      }
      throw new CommandFailure(
          ErrorCode.RANK_NOT_STARTED,
          ExitCodes.PEER,
          "rank "
              + rank
              + " cannot be started: "
              + String.valueOf(e.getMessage()).strip()
              + "; name an executable file or a command on the PATH",
          e);
    }
    guard.add(process);
    if (rank < processes.size()) {
      processes.set(rank, process);
    } else {
      processes.add(process);
    }
    relay(rank, "out", new LineRelay(process.getInputStream(), what.out()));
    relay(rank, "err", new LineRelay(process.getErrorStream(), what.err()));
    var _ =
        process
            .onExit()
            .thenAccept(
                gone -> {
                  guard.remove(gone);
                  ended.add(new Ended(rank, gone.exitValue()));
                });
  }

  private void relay(int rank, String stream, LineRelay relay) {
    relays.add(Thread.ofPlatform().daemon().name("rank-" + rank + "-" + stream).start(relay));
  }

  /** Ends every running rank; returns when all have ended. */
  private synchronized void endAll() {
    ending = true;
    List<ProcessHandle> running = new ArrayList<>();
    for (Process process : processes) {
      // Parents first, or a shell would continue after its child ends. Descendants can be listed
      // only while the parent runs.
      running.add(process.toHandle());
      process.descendants().forEach(running::add);
    }
    running.forEach(ProcessHandle::destroy);
    long deadline = System.nanoTime() + grace.toNanos();
    for (ProcessHandle handle : running) {
      awaitEnd(handle, deadline - System.nanoTime());
    }
    running.forEach(ProcessHandle::destroyForcibly);
  }

  private static void awaitEnd(ProcessHandle handle, long nanos) {
    long deadline = System.nanoTime() + nanos;
    while (runs(handle) && System.nanoTime() < deadline) {
      try {
        TimeUnit.MILLISECONDS.sleep(5);
      } catch (InterruptedException e) {
        Thread.currentThread().interrupt();
        return;
      }
    }
  }

  /**
   * Whether a process still runs. The JDK reports a zombie as alive; in containers without an init
   * process, orphans stay zombies.
   */
  private static boolean runs(ProcessHandle handle) {
    if (!handle.isAlive()) {
      return false;
    }
    try {
      String status = Files.readString(Path.of("/proc/" + handle.pid() + "/stat"));
      return !status.contains(") Z ");
    } catch (IOException e) {
      return handle.isAlive();
    }
  }

  @Override
  public void close() {
    endAll();
    guard.close();
    if (Thread.currentThread() != atExit) {
      try {
        Runtime.getRuntime().removeShutdownHook(atExit);
      } catch (IllegalStateException e) {
        // The JVM is shutting down: its shutdown hook does the same.
      }
    }
  }
}
