package org.ep4j.cli.launch;

import java.time.Duration;
import org.ep4j.cli.ExitCodes;

/**
 * How a launch ended.
 *
 * @param exitCode 0 if all ranks ended well, otherwise the exit code of the first that did not
 * @param failedRank the first rank that failed, -1 if none
 * @param report one line for people: which rank failed and how; empty if none
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
        running + " ranks still ran after " + limit.toSeconds() + " s and were ended");
  }

  /** The code for a command whose ranks are its own: how one died is no result of the command. */
  int ofOwnRanks() {
    return exitCode > SIGNAL_BASE ? ExitCodes.PEER : exitCode;
  }

  /** What an exit code says. Java reports death by signal n as 128 + n, as shells do. */
  static String describe(int exitCode) {
    String name =
        switch (exitCode - SIGNAL_BASE) {
          case 1 -> "SIGHUP";
          case 2 -> "SIGINT";
          case 4 -> "SIGILL";
          case 6 -> "SIGABRT";
          case 7 -> "SIGBUS";
          case 8 -> "SIGFPE";
          case 9 -> "SIGKILL; without memory the kernel sends it: dmesg";
          case 11 -> "SIGSEGV";
          case 13 -> "SIGPIPE";
          case 15 -> "SIGTERM";
          default -> "";
        };
    String code = "ended with exit code " + exitCode;
    return name.isEmpty() ? code : code + " (" + name + ")";
  }
}
