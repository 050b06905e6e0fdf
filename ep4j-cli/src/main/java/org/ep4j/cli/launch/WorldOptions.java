package org.ep4j.cli.launch;

import java.util.ArrayList;
import java.util.List;
import org.jspecify.annotations.Nullable;
import picocli.CommandLine.ArgGroup;
import picocli.CommandLine.Model.CommandSpec;
import picocli.CommandLine.Option;

/** Options of every command whose work is done by several ranks. */
public final class WorldOptions {
  /** At most one of them. */
  static final class RankHosting {
    @SuppressWarnings("UnusedVariable") // the way if there is no other
    @Option(
        names = "--processes",
        description =
            "A process per rank (default; bench on GPUs: threads; verify: both, one after the"
                + " other).")
    private boolean processes;

    @Option(names = "--threads", description = "A thread per rank in this JVM.")
    private boolean threads;

    @Option(
        names = "--join",
        description =
            "Be one rank of the world that a launcher made (mpirun, srun, torchrun, ep4j launch)"
                + " instead of starting ranks.")
    private boolean join;
  }

  @ArgGroup(exclusive = true)
  private @Nullable RankHosting hosting;

  /** Used by picocli. */
  public WorldOptions() {}

  /** Whether ranks were asked to be threads of this JVM. */
  public boolean threads() {
    return hosting != null && hosting.threads;
  }

  /** The same where threads are the default if {@code preferred}. */
  public boolean threads(boolean preferred) {
    return hosting == null ? preferred : hosting.threads;
  }

  /** Whether ranks were asked to be processes. */
  public boolean processes() {
    return hosting != null && hosting.processes;
  }

  /** Whether this process is a rank of somebody's world. */
  public boolean join() {
    return hosting != null && hosting.join;
  }

  /**
   * Runs the body on the ranks, in the way that was asked for: processes by default.
   *
   * @param spec of the command, for its arguments
   * @param ranks how many, unless a launcher has decided
   * @return the exit code
   */
  public int run(CommandSpec spec, int ranks, World.RankBody body) throws Exception {
    return run(spec, ranks, threads(), body);
  }

  /**
   * The same with ranks as threads or as processes.
   *
   * @param threads what {@link #threads(boolean)} said
   */
  public int run(CommandSpec spec, int ranks, boolean threads, World.RankBody body)
      throws Exception {
    if (join()) {
      return World.join(body);
    }
    return threads ? World.threads(ranks, body) : processes(spec, ranks);
  }

  /** Runs the command again on processes, a rank each. */
  public int processes(CommandSpec spec, int ranks) throws InterruptedException {
    List<String> arguments = spec.root().commandLine().getParseResult().originalArgs();
    return World.processes(ranks, joining(arguments, spec.name()));
  }

  /**
   * The arguments with {@code --join} behind the command's name, in place of {@code --processes}.
   */
  static List<String> joining(List<String> arguments, String command) {
    List<String> joining = new ArrayList<>(arguments);
    joining.remove("--processes");
    joining.add(joining.indexOf(command) + 1, "--join");
    return joining;
  }
}
