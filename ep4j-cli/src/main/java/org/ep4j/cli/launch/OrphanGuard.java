package org.ep4j.cli.launch;

import java.io.IOException;
import java.io.OutputStream;
import java.lang.ProcessBuilder.Redirect;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import org.jspecify.annotations.Nullable;

/**
 * Ends the ranks after a {@code kill -9} of this process, which then cannot: a shell that waits for
 * the end of a pipe from this process, and knows the ranks that run. It ignores the signals of the
 * terminal. Without a shell on this machine there is no guard. Thread-safe.
 */
final class OrphanGuard implements AutoCloseable {
  /**
   * Arguments: tenths of a second between SIGTERM and SIGKILL. Parents come before children. What
   * has ended gets no SIGKILL: its id may be that of another process. {@code kill -0} of several
   * processes is no test: in dash it fails when one of them has ended, in bash when all have.
   */
  private static final String SCRIPT =
      """
      trap '' HUP INT QUIT TERM
      pids=
      while read -r change pid; do
        [ "$change" = end ] && exit
        kept=
        for one in $pids; do
          [ "$one" = "$pid" ] || kept="$kept $one"
        done
        pids=$kept
        [ "$change" = + ] && pids="$pids $pid"
      done
      all=
      tree() {
        all="$all $1"
        for child in $(cat /proc/"$1"/task/*/children 2>/dev/null); do
          tree "$child"
        done
      }
      for pid in $pids; do
        tree "$pid"
      done
      [ -z "$all" ] && exit
      kill -TERM $all
      tenths=0
      while [ -n "$all" ] && [ "$tenths" -lt "$1" ]; do
        sleep 0.1
        tenths=$((tenths + 1))
        left=
        for one in $all; do
          kill -0 "$one" && left="$left $one"
        done
        all=$left
      done
      [ -z "$all" ] || kill -KILL $all
      """;

  private final @Nullable OutputStream ranks;

  private OrphanGuard(@Nullable OutputStream ranks) {
    this.ranks = ranks;
  }

  /**
   * Starts the shell, before any rank: a rank that inherited the pipe would keep it open.
   *
   * @param grace time between SIGTERM and SIGKILL
   */
  static OrphanGuard start(Duration grace) {
    String tenths = String.valueOf(grace.toMillis() / 100);
    ProcessBuilder shell = new ProcessBuilder("sh", "-c", SCRIPT, "ep4j-end-ranks", tenths);
    shell.redirectOutput(Redirect.DISCARD).redirectError(Redirect.DISCARD);
    try {
      return new OrphanGuard(shell.start().getOutputStream());
    } catch (IOException e) {
      return new OrphanGuard(null);
    }
  }

  /** A rank runs. */
  void add(Process rank) {
    tell("+ " + rank.pid() + "\n");
  }

  /** A rank has ended: its id may become that of another process. */
  void remove(Process rank) {
    tell("- " + rank.pid() + "\n");
  }

  private synchronized void tell(String line) {
    if (ranks == null) {
      return;
    }
    try {
      ranks.write(line.getBytes(StandardCharsets.US_ASCII));
      ranks.flush();
    } catch (IOException e) {
      // The shell was killed: there is no guard, and this process ends its ranks itself.
    }
  }

  /**
   * Ends the guard; after the last rank. The guard may not know yet that the last ranks have ended:
   * it must not signal their ids.
   */
  @Override
  public synchronized void close() {
    tell("end\n");
    if (ranks != null) {
      try {
        ranks.close();
      } catch (IOException e) {
        // The shell was killed.
      }
    }
  }
}
