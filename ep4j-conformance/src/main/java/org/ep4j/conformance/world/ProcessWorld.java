package org.ep4j.conformance.world;

import java.io.File;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.UUID;
import java.util.function.IntFunction;
import org.ep4j.group.GroupConfig;
import org.ep4j.group.rendezvous.Rendezvous;

/**
 * A rank per process: JVMs with the classes and the {@code ep4j.*} properties of this one.
 *
 * @param limit time limit for all ranks together
 * @param livenessTimeout silence after which a rank counts as dead
 * @param heap largest heap of a rank, as {@code -Xmx} takes it
 */
public record ProcessWorld(Duration limit, Duration livenessTimeout, String heap) implements World {
  /** Processes with heaps for the kits of this module. */
  public ProcessWorld(Duration limit, Duration livenessTimeout) {
    this(limit, livenessTimeout, "256m");
  }

  /**
   * Processes with two minutes, and a liveness timeout longer than the pauses of a loaded machine.
   */
  public ProcessWorld() {
    this(Duration.ofMinutes(2), Duration.ofSeconds(10));
  }

  @Override
  public String name() {
    return "processes";
  }

  @Override
  public boolean costly() {
    return true;
  }

  @Override
  public void run(int ranks, Class<? extends RankJob> job, List<String> arguments) {
    try (RankProcesses processes = start(ranks, job, arguments)) {
      processes.awaitSuccess(limit);
    }
  }

  /** Starts a job; the caller waits for its ranks, or kills some. */
  public RankProcesses start(int ranks, Class<? extends RankJob> job, List<String> arguments) {
    return start(ranks, job, arguments, rank -> Map.of());
  }

  /** Starts a job whose ranks have variables of their own. */
  public RankProcesses start(
      int ranks,
      Class<? extends RankJob> job,
      List<String> arguments,
      IntFunction<Map<String, String>> own) {
    GroupConfig config =
        GroupConfig.builder()
            .size(ranks)
            .rendezvous("127.0.0.1", 0)
            .secret(UUID.randomUUID().toString())
            .livenessTimeout(livenessTimeout)
            .build();
    RankProcesses processes = new RankProcesses(Rendezvous.open(config));
    boolean started = false;
    try {
      for (int rank = 0; rank < ranks; rank++) {
        Map<String, String> variables = new HashMap<>(variables(config, processes.port(), rank));
        variables.putAll(own.apply(rank));
        processes.add(command(job, arguments), variables);
      }
      started = true;
      return processes;
    } finally {
      if (!started) {
        processes.close();
      }
    }
  }

  private List<String> command(Class<? extends RankJob> job, List<String> arguments) {
    List<String> command = new ArrayList<>();
    command.add(Path.of(System.getProperty("java.home"), "bin", "java").toString());
    // A rank of a test ends before the optimizing compiler pays.
    command.addAll(List.of("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xss512k"));
    command.add("-Xmx" + heap);
    // With huge pages a start takes an eighth less CPU time; a system without them is no warning.
    command.addAll(List.of("-XX:+UseTransparentHugePages", "-Xlog:pagesize=off"));
    command.addAll(List.of("--add-modules", "jdk.incubator.vector"));
    command.add("--enable-native-access=ALL-UNNAMED");
    // A rank that others wait for inside a native library may be killed.
    command.add("-Dep4j.skipExitHandlers=true");
    System.getProperties()
        .forEach(
            (name, value) -> {
              if (name.toString().startsWith("ep4j.")) {
                command.add("-D" + name + "=" + value);
              }
            });
    command.addAll(List.of("-cp", classPath()));
    command.addAll(List.of(RankMain.class.getName(), job.getName()));
    command.addAll(arguments);
    return command;
  }

  /** All modules on the class path: a rank needs only their classes. */
  private static String classPath() {
    String classes = System.getProperty("java.class.path");
    String modules = System.getProperty("jdk.module.path");
    return modules == null ? classes : classes + File.pathSeparator + modules;
  }

  private static Map<String, String> variables(GroupConfig config, int port, int rank) {
    return Map.of(
        "EP4J_RANK", String.valueOf(rank),
        "EP4J_WORLD_SIZE", String.valueOf(config.size()),
        "EP4J_RENDEZVOUS", config.host() + ":" + port,
        "EP4J_RENDEZVOUS_EXTERNAL", "true",
        "EP4J_SECRET", config.secret(),
        "EP4J_LIVENESS_MS", String.valueOf(config.livenessTimeout().toMillis()));
  }
}
