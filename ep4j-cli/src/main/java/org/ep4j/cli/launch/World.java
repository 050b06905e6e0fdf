package org.ep4j.cli.launch;

import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.stream.Collectors;
import org.ep4j.cli.CommandFailure;
import org.ep4j.cli.ExitCodes;
import org.ep4j.cli.text.Progress;
import org.ep4j.cli.text.Style;
import org.ep4j.error.ErrorCode;
import org.ep4j.group.Group;
import org.ep4j.group.LaunchEnvironment;
import org.ep4j.group.RankFailedException;
import org.ep4j.group.ThreadRanks;

/**
 * Starts the ranks of a command: threads in this JVM, processes that run the same command with
 * {@code --join}, or this process as one rank of the world of a launcher.
 */
public final class World {
  /** Runs on each rank; rank 0 prints. */
  @FunctionalInterface
  public interface RankBody {
    /** Does the work of a rank; returns the exit code of the command, equal on all ranks. */
    int run(Group group, Progress progress) throws Exception;
  }

  private static final Duration GRACE = Duration.ofSeconds(5);
  private static final String INCUBATOR = "WARNING: Using incubator modules: ";
  private static final List<String> QUICK_START = List.of("-XX:-UsePerfData", "-XX:+UseSerialGC");

  private World() {}

  /** Threads of this JVM. */
  public static int threads(int ranks, RankBody body) {
    try (Progress progress = Progress.start()) {
      List<Integer> codes =
          ThreadRanks.call(
              ranks,
              Launcher.NO_LIMIT,
              group -> body.run(group, group.rank() == 0 ? progress : Progress.silent()));
      return codes.getFirst();
    } catch (RankFailedException e) {
      // The cause has the facts; the thread is irrelevant to the user.
      if (e.getCause() instanceof RuntimeException cause) {
        throw cause;
      }
      if (e.getCause() instanceof Error error) {
        throw error;
      }
      throw e;
    }
  }

  /**
   * Runs this process as a rank of the world of a launcher. Refuses to run without the variables of
   * a launcher: if they do not reach the processes (because of a container or a shell), each
   * process would be a world of one rank, and the result would be wrong without an error.
   */
  public static int join(RankBody body) throws Exception {
    LaunchEnvironment environment = LaunchEnvironment.of(System.getenv());
    if (environment.config() == null) {
      throw new CommandFailure(
          ErrorCode.JOIN_WITHOUT_LAUNCHER,
          ExitCodes.USAGE,
          "--join needs a launcher, but no variable holds the number of this rank (%s): start it with"
                  .formatted(String.join(", ", LaunchEnvironment.rankVariables()))
              + " mpirun, srun, flux run, torchrun or ep4j launch, or leave --join out"
              + environment.warnings().stream().map("; "::concat).collect(Collectors.joining()));
    }
    try (Group group = environment.join();
        Progress progress = group.rank() == 0 ? Progress.start() : Progress.silent()) {
      return body.run(group, progress);
    }
  }

  /**
   * Starts a process per rank.
   *
   * @param arguments arguments of the command line of a rank
   */
  public static int processes(int ranks, List<String> arguments) throws InterruptedException {
    try (Progress progress = Progress.start();
        LocalJob job = LocalJob.open(ranks, System.getenv());
        Launcher launcher = new Launcher(GRACE)) {
      Style style = Style.detect();
      List<String> command = JavaCommand.again(QUICK_START, arguments);
      List<RankProcess> processes = new ArrayList<>();
      for (int rank = 0; rank < ranks; rank++) {
        Map<String, String> variables = job.environment(rank);
        if (style == Style.COLOURED) {
          variables.put(Style.FORCE, "1");
        }
        if (rank == 0 && progress.visible()) {
          variables.put(Progress.RELAY, "1");
        }
        String prefix = style.ofRank(rank, "[" + rank + "]") + " ";
        LineSink out = LineSink.printing(System.out, rank == 0 ? "" : prefix);
        LineSink err = LineSink.printing(System.err, prefix);
        processes.add(
            new RankProcess(command, variables, above(progress, out), above(progress, err)));
      }
      Outcome outcome = launcher.run(processes, Launcher.NO_LIMIT);
      if (outcome.exitCode() > ExitCodes.FAILED) {
        throw outcome.failure(outcome.ofOwnRanks());
      }
      return outcome.exitCode();
    }
  }

  /** Prints output above the progress line; marked lines update the progress line. */
  private static LineSink above(Progress progress, LineSink sink) {
    return (line, length) -> {
      String text = new String(line, 0, Math.min(length, 200), StandardCharsets.UTF_8);
      if (text.startsWith(Progress.MARK)) {
        progress.at(text.substring(Progress.MARK.length()));
      } else if (!text.startsWith(INCUBATOR)) {
        progress.above(() -> sink.line(line, length));
      }
    };
  }
}
