package org.ep4j.cli.launch;

import java.time.Duration;
import org.ep4j.cli.CommandFailure;
import org.ep4j.cli.ExitCodes;
import org.ep4j.error.ErrorCode;

/**
 * Outcome of a launch.
 *
 * @param exitCode 0 if all ranks succeeded, otherwise the exit code of the first rank that failed
 * @param failedRank the first rank that failed, -1 if none
 * @param report one line that names the failed rank and its failure; empty if none
 */
public record Outcome(int exitCode, int failedRank, String report) {
  private static final int SIGNAL_BASE = 128;

  static final Outcome SUCCESS = new Outcome(0, -1, "");

  static Outcome failed(int rank, int exitCode) {
    return new Outcome(exitCode, rank, "rank " + rank + " " + describe(exitCode));
  }

  static Outcome late(int running, Duration limit) {
    return new Outcome(
        ExitCodes.PEER,
        -1,
        "%d ranks still ran after %d s and were ended: raise --timeout"
            .formatted(running, limit.toSeconds()));
  }

  /** The error of a launch that failed. */
  CommandFailure failure(int exit) {
    ErrorCode code = failedRank < 0 ? ErrorCode.RANKS_TIMED_OUT : ErrorCode.RANK_FAILED;
    return new CommandFailure(code, exit, report);
  }

  /**
   * The exit code of a command that started its own ranks: a signal is not a result of the command.
   */
  int ofOwnRanks() {
    return exitCode > SIGNAL_BASE ? ExitCodes.PEER : exitCode;
  }

  /** Describes an exit code. Java reports signal n as 128 + n, like shells. */
  static String describe(int exitCode) {
    String name =
        switch (exitCode - SIGNAL_BASE) {
          case 1 -> "SIGHUP";
          case 2 -> "SIGINT";
          case 4 -> "SIGILL";
          case 6 -> "SIGABRT";
          case 7 -> "SIGBUS";
          case 8 -> "SIGFPE";
          case 9 -> "SIGKILL; check dmesg: the kernel sends it when memory runs out";
          case 11 -> "SIGSEGV";
          case 13 -> "SIGPIPE";
          case 15 -> "SIGTERM";
          default -> "";
        };
    String code = "ended with exit code " + exitCode;
    return name.isEmpty() ? code : code + " (" + name + ")";
  }
}
