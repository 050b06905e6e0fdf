package org.ep4j.group;

import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.OptionalInt;
import java.util.regex.Pattern;
import java.util.stream.Stream;
import org.ep4j.error.ErrorCode;
import org.ep4j.error.InvalidArgumentException;
import org.ep4j.group.rendezvous.HostNames;
import org.jspecify.annotations.Nullable;

/** Reads the variables of {@link LaunchEnvironment}. */
final class EnvironmentReader {
  /** Ports of jobs that name none: below the range from which the system assigns ports. */
  private static final int FIRST_DERIVED_PORT = 16_384;

  private static final int DERIVED_PORTS = 16_384;

  private enum Launcher {
    EP4J("ep4j", "EP4J_RANK", "", ""),
    TORCHRUN("torchrun", "RANK", "WORLD_SIZE", "LOCAL_RANK"),
    OPEN_MPI(
        "Open MPI", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK"),
    MVAPICH("MVAPICH", "MV2_COMM_WORLD_RANK", "MV2_COMM_WORLD_SIZE", "MV2_COMM_WORLD_LOCAL_RANK"),
    FLUX("Flux", "FLUX_TASK_RANK", "FLUX_JOB_SIZE", "FLUX_TASK_LOCAL_ID"),
    // Before SLURM: a Hydra that SLURM starts passes the number of its own step on to its ranks.
    HYDRA("MPICH or Intel MPI", "PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID"),
    SLURM("SLURM", "SLURM_PROCID", "SLURM_STEP_NUM_TASKS SLURM_NTASKS", "SLURM_LOCALID"),
    PMIX("PMIx", "PMIX_RANK", "", ""),
    KUBERNETES("Kubernetes indexed job", "JOB_COMPLETION_INDEX", "WORLD_SIZE", "");

    final String text;
    final String rank;
    private final String size;
    final String localRank;

    Launcher(String text, String rank, String size, String localRank) {
      this.text = text;
      this.rank = rank;
      this.size = size;
      this.localRank = localRank;
    }

    List<String> sizes() {
      return Pattern.compile(" ").splitAsStream("EP4J_WORLD_SIZE " + size).toList();
    }
  }

  /** A value and the variable that holds it. */
  private record Found(String value, String source) {}

  /** Names of variables that launchers use for numbers of processes. */
  private static final Pattern LIKE_A_RANK =
      Pattern.compile("[A-Z0-9_]*(RANK|RANKID|PROCID|APP_PE)");

  private static final Found NOWHERE =
      new Found("127.0.0.1:" + LaunchEnvironment.DEFAULT_PORT, "not needed for one rank");

  private final Map<String, String> variables;
  private final List<LaunchEnvironment.Finding> findings = new ArrayList<>();
  private final List<String> warnings = new ArrayList<>();

  EnvironmentReader(Map<String, String> variables) {
    this.variables = variables;
  }

  LaunchEnvironment read() {
    Launcher launcher = launcher();
    if (launcher == null) {
      return none();
    }
    note("launcher", launcher.text, launcher.rank + " is set");
    int rank = number("rank", need("rank", "", launcher.rank), 0);
    int size = number("world size", need("world size", sizeRemedy(), launcher.sizes()), 1);
    if (rank >= size) {
      throw new InvalidArgumentException(
          ErrorCode.LAUNCH_VARIABLE,
          launcher.rank,
          Integer.toString(rank),
          "less than the world size (" + size + ")",
          "count ranks from 0");
    }
    String jobKey = jobKey(launcher);
    boolean alone = size == 1 && lookup("EP4J_RENDEZVOUS") == null;
    Found rendezvous = alone ? NOWHERE : rendezvous(launcher, jobKey);
    note("rendezvous", rendezvous.value(), rendezvous.source());
    int colon = rendezvous.value().lastIndexOf(':');
    String host = unbracketed(rendezvous.value().substring(0, colon));
    int port = port(rendezvous);
    GroupConfig config =
        ofAllRanks()
            .rank(rank)
            .size(size)
            .rendezvous(host, port)
            .secret(alone ? "" : secret(jobKey, host, port))
            .hostsRendezvous(hosts(rank))
            .build();
    return new LaunchEnvironment(
        launcher.text, config, localRank(launcher, config), findings, warnings);
  }

  /** What does not depend on the launcher and is the same for all ranks. */
  GroupConfig.Builder ofAllRanks() {
    return GroupConfig.builder()
        .job(jobName())
        .joinTimeout(millis("join timeout", "EP4J_JOIN_TIMEOUT_MS", GroupConfig.JOIN_TIMEOUT))
        .heartbeatInterval(millis("heartbeat", "EP4J_HEARTBEAT_MS", GroupConfig.HEARTBEAT_INTERVAL))
        .livenessTimeout(millis("liveness", "EP4J_LIVENESS_MS", GroupConfig.LIVENESS_TIMEOUT));
  }

  /** The launcher whose rank variable is set. */
  private @Nullable Launcher launcher() {
    for (Launcher launcher : Launcher.values()) {
      if (lookup(launcher.rank) != null && !isBatchScript(launcher)) {
        return launcher;
      }
    }
    return null;
  }

  /**
   * A batch script also has SLURM_PROCID = 0 but is not a task of a step: it has no other ranks.
   */
  private boolean isBatchScript(Launcher launcher) {
    return launcher == Launcher.SLURM
        && lookup("SLURM_STEP_NUM_TASKS") == null
        && lookup("SLURM_STEP_ID") == null;
  }

  private LaunchEnvironment none() {
    if (lookup("EP4J_WORLD_SIZE") != null && !"1".equals(lookup("EP4J_WORLD_SIZE"))) {
      throw new InvalidArgumentException(
          ErrorCode.LAUNCH_VARIABLE_MISSING,
          "EP4J_WORLD_SIZE",
          String.valueOf(lookup("EP4J_WORLD_SIZE")),
          "1 or unset without a rank",
          "set EP4J_RANK too");
    }
    note("launcher", "none", "no rank variable is set");
    warnOfLookAlikes();
    note("world size", "1", "alone");
    return new LaunchEnvironment("none", null, 0, findings, warnings);
  }

  /**
   * A process that an unknown launcher started would be a world of its own: its results would be
   * wrong without an error.
   */
  private void warnOfLookAlikes() {
    List<String> found =
        variables.entrySet().stream()
            .filter(variable -> LIKE_A_RANK.matcher(variable.getKey()).matches())
            .filter(variable -> variable.getValue().matches("\\d{1,9}"))
            .filter(variable -> !variable.getKey().equals(Launcher.SLURM.rank))
            .map(variable -> variable.getKey() + " = " + variable.getValue())
            .sorted()
            .toList();
    if (!found.isEmpty()) {
      warnings.add(
          "this process is a world of one rank, but %s may be the variable of a launcher: set"
                  .formatted(String.join(", ", found))
              + " EP4J_RANK and EP4J_WORLD_SIZE if the world has more ranks");
    }
  }

  /** The variables that hold the rank, of each launcher. */
  static List<String> rankVariables() {
    return Stream.of(Launcher.values()).map(launcher -> launcher.rank).toList();
  }

  private String sizeRemedy() {
    return "set EP4J_WORLD_SIZE to the number of ranks";
  }

  private Found rendezvous(Launcher launcher, String jobKey) {
    String own = lookup("EP4J_RENDEZVOUS");
    if (own != null) {
      boolean valid = own.lastIndexOf(':') > 0 && !own.endsWith("]");
      if (!valid) {
        throw new InvalidArgumentException(
            ErrorCode.LAUNCH_VARIABLE,
            "EP4J_RENDEZVOUS",
            "'" + own + "'",
            "host:port",
            "pass for example 10.0.0.1:29400");
      }
      return new Found(own, "EP4J_RENDEZVOUS");
    }
    String master = lookup("MASTER_ADDR");
    if (master != null) {
      return atMaster(HostNames.bracketed(master), jobKey);
    }
    if (isOnOneHost(launcher)) {
      return new Found("127.0.0.1:" + derivedPort(jobKey), "all ranks are on this host");
    }
    boolean inSlurm =
        launcher == Launcher.SLURM || launcher == Launcher.HYDRA || launcher == Launcher.PMIX;
    if (inSlurm && lookup("SLURM_STEP_NODELIST", "SLURM_JOB_NODELIST") != null) {
      return inStep(jobKey);
    }
    throw new InvalidArgumentException(
        ErrorCode.LAUNCH_VARIABLE_MISSING,
        "EP4J_RENDEZVOUS",
        "unset",
        "host:port of rank 0, because " + launcher.rank + " is set",
        "set it, or set MASTER_ADDR and MASTER_PORT");
  }

  /** Whether the launcher says that all ranks are on this host. */
  private boolean isOnOneHost(Launcher launcher) {
    return switch (launcher) {
      case OPEN_MPI -> same("OMPI_COMM_WORLD_LOCAL_SIZE", "OMPI_COMM_WORLD_SIZE");
      case MVAPICH -> same("MV2_COMM_WORLD_LOCAL_SIZE", "MV2_COMM_WORLD_SIZE");
      case HYDRA -> same("MPI_LOCALNRANKS", "PMI_SIZE");
      case FLUX -> "1".equals(lookup("FLUX_JOB_NNODES"));
      case EP4J, TORCHRUN, SLURM, PMIX, KUBERNETES -> false;
    };
  }

  private Found atMaster(String master, String jobKey) {
    Found port = find("MASTER_PORT");
    if (port == null) {
      return new Found(master + ":" + derivedPort(jobKey), "MASTER_ADDR, port from the job's name");
    }
    int number = number("MASTER_PORT", port, 1);
    if ("true".equalsIgnoreCase(lookup("TORCHELASTIC_USE_AGENT_STORE"))) {
      // The agent itself listens at MASTER_PORT.
      int next = number < 65_535 ? number + 1 : number - 1;
      return new Found(master + ":" + next, "MASTER_ADDR, next to MASTER_PORT");
    }
    return new Found(master + ":" + number, "MASTER_ADDR, MASTER_PORT");
  }

  private Found inStep(String jobKey) {
    String nodes = lookup("SLURM_STEP_NUM_NODES", "SLURM_NNODES");
    Found list = find("SLURM_STEP_NODELIST", "SLURM_JOB_NODELIST");
    if (list == null || "1".equals(nodes)) {
      return new Found("127.0.0.1:" + derivedPort(jobKey), "all ranks are on this host");
    }
    return new Found(
        firstHost(list.value()) + ":" + derivedPort(jobKey), "first host of " + list.source());
  }

  /** The first host of a list like {@code rack1-[003-010,17],login}. */
  static String firstHost(String list) {
    StringBuilder host = new StringBuilder();
    boolean inBrackets = false;
    boolean taken = false;
    for (int i = 0; i < list.length(); i++) {
      char c = list.charAt(i);
      if (c == '[') {
        inBrackets = true;
        taken = false;
      } else if (c == ']') {
        inBrackets = false;
      } else if (inBrackets && (c == '-' || c == ',')) {
        taken = true;
      } else if (!inBrackets && c == ',') {
        break;
      } else if (!inBrackets || !taken) {
        host.append(c);
      }
    }
    if (host.isEmpty() || inBrackets) {
      throw new InvalidArgumentException(
          ErrorCode.LAUNCH_VARIABLE,
          "SLURM node list",
          "'" + list + "'",
          "a list of hosts",
          "set EP4J_RENDEZVOUS to host:port of rank 0");
    }
    return host.toString();
  }

  /** Identifies the job within the launcher's variables; the same on all ranks. */
  private String jobKey(Launcher launcher) {
    String key =
        switch (launcher) {
          case EP4J -> "";
          case TORCHRUN -> both("TORCHELASTIC_RUN_ID", "TORCHELASTIC_RESTART_COUNT");
          case OPEN_MPI -> both("PMIX_NAMESPACE", "OMPI_MCA_ess_base_jobid");
          case MVAPICH -> both("MPIRUN_ID", "PMI_JOBID");
          case FLUX -> both("FLUX_JOB_ID", "FLUX_JOB_NNODES");
          case HYDRA -> lookup("PMI_JOBID") + "." + both("SLURM_JOB_ID", "SLURM_STEP_ID");
          case SLURM -> both("SLURM_JOB_ID", "SLURM_STEP_ID");
          case PMIX -> both("PMIX_NAMESPACE", "SLURM_JOB_ID");
          case KUBERNETES -> "";
        };
    return launcher.text + "/" + key + "/" + jobName();
  }

  private String jobName() {
    String name = lookup("EP4J_JOB");
    return name == null ? "" : name;
  }

  private String both(String first, String second) {
    return lookup(first) + "." + lookup(second);
  }

  private static int derivedPort(String jobKey) {
    return FIRST_DERIVED_PORT + Math.floorMod(jobKey.hashCode(), DERIVED_PORTS);
  }

  private String secret(String jobKey, String host, int port) {
    String own = lookup("EP4J_SECRET");
    if (own != null) {
      note("secret", SecretDerivation.isStrong(own) ? "given" : "given, weak", "EP4J_SECRET");
      return own;
    }
    note("secret", "derived, not secret", "the job's other variables");
    if (!HostNames.isLoopback(host)) {
      warnings.add(
          "EP4J_SECRET is not set, so any process that can reach %s:%d can join this job: set it to the"
                  .formatted(host, port)
              + " same random text on all ranks");
    }
    return SecretDerivation.ofPublicText("derived from " + jobKey + " at port " + port);
  }

  private boolean hosts(int rank) {
    String external = lookup("EP4J_RENDEZVOUS_EXTERNAL");
    boolean launcherHosts = external != null && List.of("true", "1").contains(external);
    if (external != null && !launcherHosts && !List.of("false", "0").contains(external)) {
      throw new InvalidArgumentException(
          ErrorCode.LAUNCH_VARIABLE,
          "EP4J_RENDEZVOUS_EXTERNAL",
          "'" + external + "'",
          "true or false",
          "correct the variable or unset it");
    }
    note(
        "rendezvous host",
        launcherHosts ? "the launcher" : "rank 0",
        external == null ? "default" : "EP4J_RENDEZVOUS_EXTERNAL");
    return rank == 0 && !launcherHosts;
  }

  /** The number of this process on its host; empty if no variable holds it. */
  OptionalInt localRank() {
    Found found = localRankVariable(launcher());
    return found == null ? OptionalInt.empty() : OptionalInt.of(number("local rank", found, 0));
  }

  /**
   * The local-rank variable of the launcher that was found; otherwise of any launcher, for ranks
   * that were set manually.
   */
  private @Nullable Found localRankVariable(@Nullable Launcher launcher) {
    Found found = find("EP4J_LOCAL_RANK", launcher == null ? "" : launcher.localRank);
    for (Launcher other : Launcher.values()) {
      if (found == null && !other.localRank.isEmpty() && !isBatchScript(other)) {
        found = find(other.localRank);
      }
    }
    return found;
  }

  private int localRank(Launcher launcher, GroupConfig config) {
    Found found = localRankVariable(launcher);
    if (found != null) {
      return number("local rank", found, 0);
    }
    boolean here = HostNames.isLoopback(config.host());
    int localRank = here ? config.rank() : 0;
    note(
        "local rank",
        Integer.toString(localRank),
        here ? "all ranks are on this host" : "one host per rank assumed");
    return localRank;
  }

  private Duration millis(String setting, String name, Duration otherwise) {
    Found found = find(name);
    if (found == null) {
      note(setting, otherwise.toMillis() + " ms", "default");
      return otherwise;
    }
    return Duration.ofMillis(number(setting, found, 1));
  }

  private static int port(Found rendezvous) {
    String text = rendezvous.value().substring(rendezvous.value().lastIndexOf(':') + 1);
    int port = parse(rendezvous.source() + " (port)", text);
    if (port < 1 || port > 65_535) {
      throw new InvalidArgumentException(
          ErrorCode.LAUNCH_VARIABLE,
          rendezvous.source(),
          "'" + rendezvous.value() + "'",
          "host:port with a port from 1 to 65535",
          "correct the port");
    }
    return port;
  }

  private static String unbracketed(String host) {
    return host.startsWith("[") && host.endsWith("]") ? host.substring(1, host.length() - 1) : host;
  }

  private boolean same(String one, String other) {
    String value = lookup(one);
    return value != null && value.equals(lookup(other));
  }

  private Found need(String what, String remedy, String name) {
    return need(what, remedy, List.of(name));
  }

  private Found need(String what, String remedy, List<String> names) {
    Found found = find(names.toArray(new String[0]));
    if (found == null) {
      throw new InvalidArgumentException(
          ErrorCode.LAUNCH_VARIABLE_MISSING,
          what,
          "unset",
          "in one of " + String.join(", ", names).trim(),
          remedy);
    }
    return found;
  }

  private int number(String setting, Found found, int least) {
    int number = parse(found.source(), found.value());
    if (number < least) {
      throw new InvalidArgumentException(
          ErrorCode.LAUNCH_VARIABLE,
          found.source(),
          Integer.toString(number),
          "at least " + least,
          "correct the variable");
    }
    note(setting, found.value(), found.source());
    return number;
  }

  private static int parse(String name, String text) {
    try {
      return Integer.parseInt(text.trim());
    } catch (NumberFormatException e) {
      throw new InvalidArgumentException(
          ErrorCode.LAUNCH_VARIABLE, name, "'" + text + "'", "an integer", "correct the variable");
    }
  }

  private void note(String setting, String value, String source) {
    findings.add(new LaunchEnvironment.Finding(setting, value, source));
  }

  private @Nullable String lookup(String... names) {
    Found found = find(names);
    return found == null ? null : found.value();
  }

  /** The first of these variables that is set and not blank. */
  private @Nullable Found find(String... names) {
    for (String name : names) {
      String value = variables.get(name);
      if (value != null && !value.isBlank()) {
        return new Found(value, name);
      }
    }
    return null;
  }
}
