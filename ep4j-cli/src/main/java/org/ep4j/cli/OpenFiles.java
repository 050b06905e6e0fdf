package org.ep4j.cli;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import org.ep4j.error.ErrorCode;

/** The limit of open files of this process, its descriptors. */
public final class OpenFiles {
  /** What the system calls a failure for want of descriptors, in messages of the JDK. */
  private static final String LACKING = "Too many open files";

  private static final Path LIMITS = Path.of("/proc/self/limits");
  private static final String ROW = "Max open files";

  /**
   * Files of a process that starts ranks, beside those of the ranks: of the JVM and its modules,
   * the rendezvous, and the start of a process.
   */
  private static final int OWN = 30;

  /** Of each rank: two pipes for its output, and its connection to the rendezvous. */
  private static final int PER_RANK = 3;

  /** Below, the JVM cannot load all classes of a command, and reports that some do not exist. */
  private static final int LEAST = 24;

  /**
   * Below, any failure may be for want of a descriptor: the JDK often reports only what it could
   * not load because of that, such as a class or an algorithm.
   */
  private static final int PLENTY = 64;

  private OpenFiles() {}

  /** Whether this process can load its classes. */
  static boolean suffice() {
    return limit() >= LEAST;
  }

  /** Reports that it cannot; returns the exit code. */
  static int refuse() {
    System.err.println(
        "ep4j: "
            + ErrorCode.FEW_OPEN_FILES.message(
                "this process may have %d open files, and ep4j needs at least %d: raise the limit (ulimit -n)"
                    .formatted(limit(), LEAST)));
    return ExitCodes.FAILED;
  }

  /**
   * Requires what a process needs that starts ranks.
   *
   * @throws CommandFailure if the limit is lower; names it, what is needed, and the remedy
   */
  public static void requireForRanks(int ranks) {
    requireForRanks(ranks, limit());
  }

  static void requireForRanks(int ranks, long limit) {
    long needed = OWN + (long) PER_RANK * ranks;
    if (limit < needed) {
      throw new CommandFailure(
          ErrorCode.FEW_OPEN_FILES,
          ExitCodes.PEER,
          "starting %d ranks takes %d open files, and this process may have %d: raise the limit (ulimit -n %d), or start fewer ranks"
              .formatted(ranks, needed, limit, needed));
    }
  }

  /** The limit of this process; a number that is never reached where the system does not tell. */
  static long limit() {
    try {
      return Files.readAllLines(LIMITS).stream()
          .filter(line -> line.startsWith(ROW))
          .map(line -> line.substring(ROW.length()).strip().split("\\s+", 2)[0])
          .filter(soft -> soft.matches("\\d{1,18}"))
          .mapToLong(Long::parseLong)
          .findFirst()
          .orElse(Long.MAX_VALUE);
    } catch (IOException e) {
      // Also where no descriptor is left for the file itself.
      return lackedBy(e) ? 0 : Long.MAX_VALUE;
    }
  }

  /** Whether something failed because this process has too few descriptors. */
  public static boolean lackedBy(Throwable failure) {
    Throwable cause = failure;
    for (int depth = 0; cause != null && depth < 16; depth++) {
      if (String.valueOf(cause.getMessage()).contains(LACKING)) {
        return true;
      }
      cause = cause.getCause();
    }
    return false;
  }

  /** Whether a limit is so low that any failure may come from it. */
  static boolean suspect(long limit) {
    return limit < PLENTY;
  }

  /** The error of a command that failed so, under a limit. */
  static String message(String what, long limit) {
    return ErrorCode.FEW_OPEN_FILES.message(
        "%s: this process may have %s open files: raise the limit (ulimit -n)"
            .formatted(what, limit == Long.MAX_VALUE ? "too few" : String.valueOf(limit)));
  }
}
