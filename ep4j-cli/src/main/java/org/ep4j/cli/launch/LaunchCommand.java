package org.ep4j.cli.launch;

import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.Callable;
import java.util.function.IntFunction;
import org.ep4j.cli.CommandSpecs;
import org.ep4j.cli.ExitCodes;
import org.ep4j.cli.text.Style;
import org.ep4j.error.ErrorCode;
import org.jspecify.annotations.Nullable;
import picocli.CommandLine.Command;
import picocli.CommandLine.Model.CommandSpec;
import picocli.CommandLine.Option;
import picocli.CommandLine.Parameters;
import picocli.CommandLine.Spec;

/** Runs a command once per rank on this host. */
@Command(
    name = "launch",
    description = {
      "Run a command once per rank on this host.",
      "",
      "The launcher hosts the rendezvous and creates a new secret; Group.fromEnvironment() uses"
          + " both. RANK, WORLD_SIZE, LOCAL_RANK, MASTER_ADDR and MASTER_PORT are set for other"
          + " programs. Every line of output begins with its rank. When a rank fails, the launcher"
          + " terminates the others (SIGTERM), then kills them; a shell does the same if the"
          + " launcher itself is killed.",
      "",
      "Exit code: 0 if all ranks ended with 0, otherwise that of the first rank that failed (128 +"
          + " n after signal n).",
      ""
    })
public final class LaunchCommand implements Callable<Integer> {
  private static final int MAX_RANKS = 1024;

  @Option(
      names = {"-n", "--ranks"},
      required = true,
      paramLabel = "N",
      description = "Number of ranks.")
  private int ranks;

  @Option(
      names = "--hosts",
      split = ",",
      paramLabel = "N|NETNS",
      description =
          "Run the ranks in network namespaces, the same number of consecutive ranks in each (fewer"
              + " in the last), to test a job on several hosts. Rank 0 hosts the rendezvous. A number N creates N"
              + " namespaces with a bridge, and removes them at the end; named namespaces and the"
              + " links between them must exist. Needs root.")
  private List<String> hosts = List.of();

  @Option(
      names = "--env",
      paramLabel = "K=V",
      description = "Set a variable for all ranks; can be repeated.")
  private Map<String, String> environment = new LinkedHashMap<>();

  @Option(
      names = "--grace",
      paramLabel = "SECONDS",
      defaultValue = "5",
      description = "Time between SIGTERM and SIGKILL; default ${DEFAULT-VALUE}.")
  private int graceSeconds;

  @Option(
      names = "--timeout",
      paramLabel = "SECONDS",
      defaultValue = "0",
      description = "End all ranks after this time; default 0: never.")
  private int timeoutSeconds;

  @Option(
      names = "--java",
      description =
          "COMMAND is the arguments of java: run them on the JDK of ep4j, with the options that"
              + " ep4j needs (vector module, native access).")
  private boolean java;

  @Option(
      names = "--restart",
      paramLabel = "N",
      defaultValue = "0",
      description =
          "Restart a rank that fails, at most N times each, instead of ending the others; default"
              + " ${DEFAULT-VALUE}. EP4J_RESTART tells it how often; it joins with Group.rejoin.")
  private int restarts;

  @Option(names = "--no-prefix", description = "Do not prefix lines.")
  private boolean noPrefix;

  @Parameters(
      arity = "1..*",
      paramLabel = "COMMAND",
      description = "The command and its arguments, behind -- if it has options.")
  private List<String> arguments = new ArrayList<>();

  @Spec private @Nullable CommandSpec spec;

  /** Used by picocli. */
  public LaunchCommand() {}

  @Override
  public Integer call() throws InterruptedException {
    CommandSpecs.checkValue(spec, ranks >= 1 && ranks <= MAX_RANKS, "-n", ranks, "1.." + MAX_RANKS);
    CommandSpecs.checkValue(spec, graceSeconds >= 0, "--grace", graceSeconds, ">= 0");
    CommandSpecs.checkValue(spec, timeoutSeconds >= 0, "--timeout", timeoutSeconds, ">= 0");
    CommandSpecs.checkValue(spec, restarts >= 0, "--restart", restarts, ">= 0");
    List<String> command = java ? JavaCommand.program(arguments) : arguments;
    Duration limit = timeoutSeconds == 0 ? Launcher.NO_LIMIT : Duration.ofSeconds(timeoutSeconds);
    boolean counted = hosts.size() == 1 && hosts.getFirst().matches("\\d{1,9}");
    int count = counted ? Integer.parseInt(hosts.getFirst()) : hosts.size();
    CommandSpecs.checkValue(
        spec,
        !counted || (count >= 1 && count <= MadeNamespaces.MAX),
        "--hosts",
        count,
        "1.." + MadeNamespaces.MAX);
    CommandSpecs.check(
        spec,
        hosts.isEmpty() || NamespaceJob.hosts(ranks, count) == count,
        ErrorCode.CONFLICTING_OPTIONS,
        "--hosts = %d, but %d ranks fill only %d hosts: use fewer hosts"
            .formatted(count, ranks, NamespaceJob.hosts(ranks, Math.max(1, count))));
    Map<String, String> settings = new HashMap<>(System.getenv());
    settings.putAll(environment);
    if (counted) {
      try (MadeNamespaces made = MadeNamespaces.make(count)) {
        return run(NamespaceJob.open(ranks, made.names(), settings), command, limit);
      }
    }
    if (!hosts.isEmpty()) {
      return run(NamespaceJob.open(ranks, hosts, settings), command, limit);
    }
    try (LocalJob job = LocalJob.open(ranks, settings)) {
      return run(processes(job::environment, rank -> command), limit);
    }
  }

  private int run(NamespaceJob job, List<String> command, Duration limit)
      throws InterruptedException {
    return run(processes(job::environment, rank -> job.command(rank, command)), limit);
  }

  private int run(List<RankProcess> processes, Duration limit) throws InterruptedException {
    try (Launcher launcher = new Launcher(Duration.ofSeconds(graceSeconds))) {
      Outcome outcome = launcher.run(processes, limit, restarts);
      if (outcome.exitCode() != 0) {
        throw outcome.failure(outcome.exitCode());
      }
      return ExitCodes.OK;
    }
  }

  private List<RankProcess> processes(
      IntFunction<Map<String, String>> environments, IntFunction<List<String>> commands) {
    Style style = Style.detect();
    List<RankProcess> processes = new ArrayList<>();
    for (int rank = 0; rank < ranks; rank++) {
      Map<String, String> variables = environments.apply(rank);
      if (style == Style.COLOURED) {
        variables.put(Style.FORCE, "1");
      }
      variables.putAll(environment);
      String prefix = noPrefix ? "" : style.ofRank(rank, "[" + rank + "]") + " ";
      processes.add(
          new RankProcess(
              commands.apply(rank),
              variables,
              LineSink.printing(System.out, prefix),
              LineSink.printing(System.err, prefix)));
    }
    return processes;
  }
}
