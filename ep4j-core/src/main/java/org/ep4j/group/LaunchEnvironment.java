package org.ep4j.group;

import java.time.Duration;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.OptionalInt;
import org.jspecify.annotations.Nullable;

/**
 * What the variables that launchers set say about this process: which rank it is, of how many, and
 * where they meet. A pure function of the variables.
 *
 * <p>The launcher is the first of these whose rank variable is set; its variables then count, and
 * {@code EP4J_*} variables override them one by one.
 *
 * <table>
 * <caption>Launchers and their variables</caption>
 * <tr><th>launcher</th><th>rank</th><th>size</th><th>local rank</th><th>rendezvous</th></tr>
 * <tr><td>ep4j</td><td>EP4J_RANK</td><td>EP4J_WORLD_SIZE</td><td>EP4J_LOCAL_RANK</td>
 *     <td>EP4J_RENDEZVOUS = host:port</td></tr>
 * <tr><td>torchrun</td><td>RANK</td><td>WORLD_SIZE</td><td>LOCAL_RANK</td>
 *     <td>MASTER_ADDR, MASTER_PORT (the port after it where the agent occupies that)</td></tr>
 * <tr><td>Open MPI</td><td>OMPI_COMM_WORLD_RANK</td><td>OMPI_COMM_WORLD_SIZE</td>
 *     <td>OMPI_COMM_WORLD_LOCAL_RANK</td><td>MASTER_ADDR, or this host if all ranks are on it</td>
 *     </tr>
 * <tr><td>SLURM (srun)</td><td>SLURM_PROCID</td><td>SLURM_STEP_NUM_TASKS, SLURM_NTASKS</td>
 *     <td>SLURM_LOCALID</td><td>MASTER_ADDR, or the first host of the step</td></tr>
 * <tr><td>Kubernetes indexed job</td><td>JOB_COMPLETION_INDEX</td><td>WORLD_SIZE</td><td>0</td>
 *     <td>MASTER_ADDR</td></tr>
 * </table>
 *
 * <p>Further: {@code EP4J_SECRET}; {@code EP4J_JOB}, a name that tells jobs apart; {@code
 * EP4J_RENDEZVOUS_EXTERNAL=true} if the launcher hosts the rendezvous rather than rank 0; {@code
 * EP4J_JOIN_TIMEOUT_MS}, {@code EP4J_HEARTBEAT_MS}, {@code EP4J_LIVENESS_MS}.
 *
 * <p><b>Without {@code EP4J_SECRET}</b> the secret is derived from what names the job in these
 * variables. That keeps jobs apart, but whoever knows the variables knows it: anybody who can reach
 * the port and guess them can join. On an untrusted network set {@code EP4J_SECRET}.
 *
 * @param launcher which launcher's variables were found; {@code none} if no rank is set
 * @param config how to join; null if no rank is set
 * @param localRank number of this rank on its host
 * @param findings each effective value and the variable it came from, for reports; no secrets
 * @param warnings what the user should know, a line each
 */
public record LaunchEnvironment(
    String launcher,
    @Nullable GroupConfig config,
    int localRank,
    List<Finding> findings,
    List<String> warnings) {
  /** Port of the rendezvous where nothing names one. */
  public static final int DEFAULT_PORT = 29_400;

  private static final System.Logger LOG = System.getLogger("org.ep4j.group");

  /**
   * One effective value.
   *
   * @param setting what it is
   * @param value the value; a secret is only said to be there
   * @param source the variable it came from, or how it was found
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
   * @throws IllegalArgumentException if a variable has a bad value, or one is missing beside those
   *     that are there; names it and the remedy
   */
  public static LaunchEnvironment of(Map<String, String> variables) {
    EnvironmentReader reader = new EnvironmentReader(variables);
    return reader.read();
  }

  /**
   * The number of this process on its host where a variable tells it: {@code EP4J_LOCAL_RANK}, that
   * of the launcher, or that of another launcher whose variable is set; reads nothing else, so it
   * also serves processes that join a group by themselves.
   *
   * @throws IllegalArgumentException if the variable holds no number; names it
   */
  public static OptionalInt localRank(Map<String, String> variables) {
    return new EnvironmentReader(variables).localRank();
  }

  /** Joins the group; rank 0 logs the warnings. Alone in a group of size 1 if no rank is set. */
  public Group join() {
    if (config != null && config.rank() == 0) {
      for (String warning : warnings) {
        LOG.log(System.Logger.Level.WARNING, "ep4j: " + warning);
      }
    }
    return config == null ? Group.inProcess(1).getFirst() : Group.join(config);
  }

  /**
   * The variables that make a child process join with this configuration, for launchers.
   *
   * @param config of the child's rank
   * @param localRank number of the rank on its host
   */
  public static Map<String, String> variables(GroupConfig config, int localRank) {
    Map<String, String> variables = new LinkedHashMap<>();
    variables.put("EP4J_RANK", Integer.toString(config.rank()));
    variables.put("EP4J_WORLD_SIZE", Integer.toString(config.size()));
    variables.put("EP4J_LOCAL_RANK", Integer.toString(localRank));
    String host = config.host().contains(":") ? "[" + config.host() + "]" : config.host();
    variables.put("EP4J_RENDEZVOUS", host + ":" + config.port());
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
