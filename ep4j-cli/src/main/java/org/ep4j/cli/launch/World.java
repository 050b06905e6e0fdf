package org.ep4j.cli.launch;

import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import org.ep4j.cli.CommandFailure;
import org.ep4j.cli.ExitCodes;
import org.ep4j.cli.text.Progress;
import org.ep4j.cli.text.Style;
import org.ep4j.group.Group;
import org.ep4j.group.LaunchEnvironment;
import org.ep4j.group.RankFailedException;
import org.ep4j.group.ThreadRanks;

/**
 * Brings about the ranks that do a command's work: threads here, processes that run the same
 * command with {@code --join}, or this process as one rank of a launcher's world.
 */
public final class World {
  /** Runs on each rank; rank 0 does the printing. */
  @FunctionalInterface
  public interface RankBody {
    /** Does the work of a rank; returns the command's exit code, the same on all ranks. */
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
      // The cause carries the facts; which thread it was means little to the user.
      if (e.getCause() instanceof RuntimeException cause) {
        throw cause;
      }
      throw e;
    }
  }

  /**
   * This process as a rank of the world that a launcher made. Without a launcher's variables it
   * would be alone, and so would each of its peers: where variables do not reach the processes (a
   * container, a shell between) that is a result of one rank in place of an error.
   */
  public static int join(RankBody body) throws Exception {
    LaunchEnvironment environment = LaunchEnvironment.of(System.getenv());
    if (environment.config() == null) {
      throw new CommandFailure(
          ExitCodes.USAGE,
          "--join is for a rank that a launcher started, but no variable tells the rank (EP4J_RANK,"
              + " RANK, OMPI_COMM_WORLD_RANK, SLURM_PROCID, JOB_COMPLETION_INDEX): start it with"
              + " mpirun, srun, torchrun or ep4j launch, or leave --join out");
    }
    try (Group group = environment.join();
        Progress progress = group.rank() == 0 ? Progress.start() : Progress.silent()) {
      OrphanGuard.start();
      return body.run(group, progress);
    }
  }

  /**
   * A process per rank.
   *
   * @param arguments of the command line that makes a process a rank
   */
  public static int processes(int ranks, List<String> arguments) throws InterruptedException {
    try (Progress progress = Progress.start();
        LocalJob job = LocalJob.open(ranks);
        Launcher launcher = new Launcher(GRACE)) {
      Style style = Style.detect();
      List<String> command = JavaCommand.again(QUICK_START, arguments);
      List<RankProcess> processes = new ArrayList<>();
      for (int rank = 0; rank < ranks; rank++) {
        Map<String, String> variables = job.environment(rank);
        OrphanGuard.arm(variables);
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
        throw new CommandFailure(outcome.ofOwnRanks(), outcome.report());
      }
      return outcome.exitCode();
    }
  }

  /** Real lines go above the progress line; marked lines are what it says. */
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
