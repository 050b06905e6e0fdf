package org.ep4j.cli.launch;

import java.util.ArrayList;
import java.util.List;
import java.util.regex.Pattern;
import org.ep4j.cli.HelpGroup;
import org.jspecify.annotations.Nullable;
import picocli.CommandLine.ArgGroup;
import picocli.CommandLine.Model.CommandSpec;
import picocli.CommandLine.Option;

/** Options of every command with several ranks. */
@HelpGroup(HelpGroup.RANKS)
public final class WorldOptions {
  /** An argument, or a value behind an option, that names an open file other than 0, 1 and 2. */
  private static final Pattern OPEN_FILE =
      Pattern.compile("^(--[a-z-]+=)?/(?:dev|proc/self)/fd/([3-9]|[1-9]\\d+)$");

  /** Mutually exclusive options. */
  static final class RankHosting {
    @SuppressWarnings("UnusedVariable") // the default
    @Option(
        names = "--processes",
        description =
            "A process per rank (default; bench on GPUs: threads; verify: first threads, then"
                + " processes).")
    private boolean processes;

    @Option(names = "--threads", description = "A thread per rank in this JVM.")
    private boolean threads;

    @Option(
        names = "--join",
        description =
            "Run as one rank of a launcher (mpirun, srun, torchrun, ep4j launch) instead of"
                + " starting ranks.")
    private boolean join;
  }

  @ArgGroup(exclusive = true)
  private @Nullable RankHosting hosting;

  /** Used by picocli. */
  public WorldOptions() {}

  /** Whether the options request threads of this JVM. */
  public boolean threads() {
    return hosting != null && hosting.threads;
  }

  /** The same, with threads as the default if {@code preferred}. */
  public boolean threads(boolean preferred) {
    return hosting == null ? preferred : hosting.threads;
  }

  /** Whether the options request processes. */
  public boolean processes() {
    return hosting != null && hosting.processes;
  }

  /** Whether this process is a rank of a launcher. */
  public boolean join() {
    return hosting != null && hosting.join;
  }

  /**
   * Runs the body on the ranks as requested; default: processes.
   *
   * @param spec specification of the command, for its arguments
   * @param ranks number of ranks, unless a launcher sets it
   * @return the exit code
   */
  public int run(CommandSpec spec, int ranks, World.RankBody body) throws Exception {
    return run(spec, ranks, threads(), body);
  }

  /**
   * The same with ranks as threads or as processes.
   *
   * @param threads the result of {@link #threads(boolean)}
   */
  public int run(CommandSpec spec, int ranks, boolean threads, World.RankBody body)
      throws Exception {
    if (join()) {
      return World.join(body);
    }
    return threads ? World.threads(ranks, body) : processes(spec, ranks);
  }

  /** Runs the command again in a process per rank. */
  public int processes(CommandSpec spec, int ranks) throws InterruptedException {
    List<String> arguments = spec.root().commandLine().getParseResult().originalArgs();
    return World.processes(ranks, joining(arguments, spec.name()));
  }

  /**
   * The arguments with {@code --join} behind the name of the command, instead of {@code
   * --processes}. Open files of this process have another name in a child, which does not inherit
   * them: a shell passes {@code >(command)} as one.
   */
  static List<String> joining(List<String> arguments, String command) {
    String openFiles = "$1/proc/" + ProcessHandle.current().pid() + "/fd/$2";
    List<String> joining = new ArrayList<>();
    for (String argument : arguments) {
      joining.add(OPEN_FILE.matcher(argument).replaceFirst(openFiles));
    }
    joining.remove("--processes");
    joining.add(joining.indexOf(command) + 1, "--join");
    return joining;
  }
}
