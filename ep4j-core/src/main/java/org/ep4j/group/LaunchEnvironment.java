package org.ep4j.group;

import java.time.Duration;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.OptionalInt;
import org.ep4j.group.rendezvous.HostNames;
import org.jspecify.annotations.Nullable;

/**
 * What the variables of launchers define for this process: its rank, the number of ranks, and where
 * they meet. A pure function of the variables.
 *
 * <p>The launcher is the first in the table whose rank variable is set. Its variables apply, and
 * {@code EP4J_*} variables override them one by one.
 *
 * <table>
 * <caption>Launchers and their variables</caption>
 * <tr><th>launcher</th><th>rank</th><th>size</th><th>local rank</th><th>rendezvous</th></tr>
 * <tr><td>ep4j</td><td>EP4J_RANK</td><td>EP4J_WORLD_SIZE</td><td>EP4J_LOCAL_RANK</td>
 *     <td>EP4J_RENDEZVOUS = host:port</td></tr>
 * <tr><td>torchrun</td><td>RANK</td><td>WORLD_SIZE</td><td>LOCAL_RANK</td>
 *     <td>MASTER_ADDR, MASTER_PORT (the next port if the agent occupies it)</td></tr>
 * <tr><td>Open MPI</td><td>OMPI_COMM_WORLD_RANK</td><td>OMPI_COMM_WORLD_SIZE</td>
 *     <td>OMPI_COMM_WORLD_LOCAL_RANK</td><td>MASTER_ADDR, or this host if all ranks are on it</td>
 *     </tr>
 * <tr><td>MVAPICH</td><td>MV2_COMM_WORLD_RANK</td><td>MV2_COMM_WORLD_SIZE</td>
 *     <td>MV2_COMM_WORLD_LOCAL_RANK</td><td>MASTER_ADDR, or this host if all ranks are on it</td>
 *     </tr>
 * <tr><td>Flux</td><td>FLUX_TASK_RANK</td><td>FLUX_JOB_SIZE</td><td>FLUX_TASK_LOCAL_ID</td>
 *     <td>MASTER_ADDR, or this host if all ranks are on it</td></tr>
 * <tr><td>MPICH, Intel MPI</td><td>PMI_RANK</td><td>PMI_SIZE</td><td>MPI_LOCALRANKID</td>
 *     <td>MASTER_ADDR, this host if all ranks are on it, or the first host of SLURM's job</td></tr>
 * <tr><td>SLURM (srun)</td><td>SLURM_PROCID</td><td>SLURM_STEP_NUM_TASKS, SLURM_NTASKS</td>
 *     <td>SLURM_LOCALID</td><td>MASTER_ADDR, or the first host of the step</td></tr>
 * <tr><td>PMIx</td><td>PMIX_RANK</td><td>EP4J_WORLD_SIZE</td><td>0</td>
 *     <td>MASTER_ADDR, or the first host of SLURM's job</td></tr>
 * <tr><td>Kubernetes indexed job</td><td>JOB_COMPLETION_INDEX</td><td>WORLD_SIZE</td><td>0</td>
 *     <td>MASTER_ADDR</td></tr>
 * </table>
 *
 * <p>Without any of them the process is a world of one rank; a warning names variables that look
 * like a rank of another launcher.
 *
 * <p>Further variables: {@code EP4J_SECRET}; {@code EP4J_JOB}, a name that distinguishes jobs;
 * {@code EP4J_RENDEZVOUS_EXTERNAL=true} if the launcher hosts the rendezvous instead of rank 0;
 * {@code EP4J_JOIN_TIMEOUT_MS}, {@code EP4J_HEARTBEAT_MS}, {@code EP4J_LIVENESS_MS}.
 *
 * <p><b>Without {@code EP4J_SECRET}</b> the secret is derived from the variables that name the job.
 * That separates jobs, but protects nothing: any process that can reach the port and guess the
 * variables can join. On an untrusted network set {@code EP4J_SECRET}.
 *
 * @param launcher the launcher whose variables were found; {@code none} if no rank is set
 * @param config how to join; null if no rank is set
 * @param localRank number of this rank on its host
 * @param findings each effective value and its variable, for reports; no secrets
 * @param warnings one warning per line
 */
public record LaunchEnvironment(
    String launcher,
    @Nullable GroupConfig config,
    int localRank,
    List<Finding> findings,
    List<String> warnings) {
  /** Default port of the rendezvous. */
  public static final int DEFAULT_PORT = 29_400;

  private static final System.Logger LOG = System.getLogger("org.ep4j.group");

  /**
   * One effective value.
   *
   * @param setting name of the setting
   * @param value the value; of a secret only whether it is set
   * @param source the variable, or how the value was determined
   */
  public record Finding(String setting, String value, String source) {}

  /** Copies the lists. */
  public LaunchEnvironment {
    findings = List.copyOf(findings);
    warnings = List.copyOf(warnings);
  }

  /**
   * Reads the variables.
   *
   * @throws org.ep4j.error.InvalidArgumentException if a variable has an invalid value or a
   *     required one is missing; names the variable and the remedy
   */
  public static LaunchEnvironment of(Map<String, String> variables) {
    EnvironmentReader reader = new EnvironmentReader(variables);
    return reader.read();
  }

  /**
   * The number of this process on its host, if a variable holds it: {@code EP4J_LOCAL_RANK}, the
   * variable of the launcher, or that of another launcher. Reads nothing else, so it also serves
   * processes that join a group with an explicit configuration.
   *
   * @throws org.ep4j.error.InvalidArgumentException if the variable holds no number; names the
   *     variable
   */
  public static OptionalInt localRank(Map<String, String> variables) {
    return new EnvironmentReader(variables).localRank();
  }

  /** The variables that may hold the rank, one for each launcher of the table. */
  public static List<String> rankVariables() {
    return EnvironmentReader.rankVariables();
  }

  /** Joins the group; rank 0 logs the warnings. Without a rank the group has size 1. */
  public Group join() {
    if (config == null || config.rank() == 0) {
      for (String warning : warnings) {
        LOG.log(System.Logger.Level.WARNING, "ep4j: " + warning);
      }
    }
    return config == null ? Group.inProcess(1).getFirst() : Group.join(config);
  }

  /**
   * A configuration with the job's name and the times of the variables, for launchers, which host
   * the rendezvous with it and pass it on by {@link #variables}.
   *
   * @throws org.ep4j.error.InvalidArgumentException if a variable has an invalid value; names it
   */
  public static GroupConfig.Builder ofAllRanks(Map<String, String> variables) {
    return new EnvironmentReader(variables).ofAllRanks();
  }

  /**
   * The variables with which a child process joins this configuration, for launchers.
   *
   * @param config of the child's rank
   * @param localRank number of the rank on its host
   */
  public static Map<String, String> variables(GroupConfig config, int localRank) {
    Map<String, String> variables = new LinkedHashMap<>();
    variables.put("EP4J_RANK", Integer.toString(config.rank()));
    variables.put("EP4J_WORLD_SIZE", Integer.toString(config.size()));
    variables.put("EP4J_LOCAL_RANK", Integer.toString(localRank));
    variables.put("EP4J_RENDEZVOUS", HostNames.bracketed(config.host()) + ":" + config.port());
    boolean external = !config.hostsRendezvous() && config.rank() == 0;
    variables.put("EP4J_RENDEZVOUS_EXTERNAL", Boolean.toString(external));
    variables.put("EP4J_SECRET", config.secret());
    variables.put("EP4J_JOB", config.job());
    variables.put("EP4J_JOIN_TIMEOUT_MS", millis(config.joinTimeout()));
    variables.put("EP4J_HEARTBEAT_MS", millis(config.heartbeatInterval()));
    variables.put("EP4J_LIVENESS_MS", millis(config.livenessTimeout()));
    return variables;
  }

  private static String millis(Duration duration) {
    return Long.toString(duration.toMillis());
  }

  /** The findings and warnings as lines of text. */
  public List<String> report() {
    List<String> lines = new ArrayList<>();
    for (Finding finding : findings) {
      lines.add("%s = %s (%s)".formatted(finding.setting(), finding.value(), finding.source()));
    }
    for (String warning : warnings) {
      lines.add("warning: " + warning);
    }
    return lines;
  }
}
