package org.ep4j.cli.launch;

import java.io.IOException;
import java.lang.ProcessBuilder.Redirect;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import org.ep4j.ErrorCode;
import org.ep4j.cli.CommandFailure;
import org.ep4j.cli.ExitCodes;

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

  private final Duration grace;
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
    Runtime.getRuntime().addShutdownHook(atExit);
  }

  /**
   * Starts all ranks, waits until all have ended, and returns the outcome.
   *
   * @param limit time limit of the ranks
   */
  public Outcome run(List<RankProcess> ranks, Duration limit) throws InterruptedException {
    for (RankProcess rank : ranks) {
      start(rank);
    }
    long end = System.nanoTime() + limit.toNanos();
    Outcome outcome = Outcome.SUCCESS;
    int running = ranks.size();
    while (running > 0) {
      Ended next = ended.poll(1, TimeUnit.SECONDS);
      if (next != null) {
        running--;
        if (next.exitCode != 0 && outcome.exitCode() == 0) {
          outcome = Outcome.failed(next.rank, next.exitCode);
          endAll();
        }
      } else if (System.nanoTime() - end > 0 && outcome.exitCode() == 0) {
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

  private synchronized void start(RankProcess what) {
    if (ending) {
      throw new CommandFailure(
          ErrorCode.LAUNCH_INTERRUPTED, ExitCodes.PEER, "interrupted while it started ranks");
    }
    int rank = processes.size();
    ProcessBuilder builder = new ProcessBuilder(what.command());
    builder.environment().putAll(what.environment());
    builder.redirectInput(Redirect.from(Path.of("/dev/null").toFile()));
    Process process;
    try {
      process = builder.start();
    } catch (IOException e) {
      throw new CommandFailure(
          ErrorCode.RANK_NOT_STARTED,
          ExitCodes.PEER,
          "rank "
              + rank
              + " cannot be started: "
              + e.getMessage()
              + "; name an executable file or a command on the PATH",
          e);
    }
    processes.add(process);
    relay(rank, "out", new LineRelay(process.getInputStream(), what.out()));
    relay(rank, "err", new LineRelay(process.getErrorStream(), what.err()));
    var _ = process.onExit().thenAccept(gone -> ended.add(new Ended(rank, gone.exitValue())));
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
    if (Thread.currentThread() != atExit) {
      try {
        Runtime.getRuntime().removeShutdownHook(atExit);
      } catch (IllegalStateException e) {
        // The JVM is shutting down: its shutdown hook does the same.
      }
    }
  }
}
