package org.ep4j.cli.launch;

import java.security.SecureRandom;
import java.util.ArrayList;
import java.util.HexFormat;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import org.ep4j.cli.CommandFailure;
import org.ep4j.cli.ExitCodes;
import org.ep4j.cli.OpenFiles;
import org.ep4j.error.ErrorCode;
import org.ep4j.group.GroupConfig;
import org.ep4j.group.LaunchEnvironment;

/**
 * A job whose ranks run in network namespaces of this machine. A namespace simulates a host with
 * its own network stack. Rank 0 hosts the rendezvous in the first namespace; the ranks of a
 * namespace are consecutive.
 */
final class NamespaceJob {
  private static final int SECRET_BYTES = 32;

  /** Below the ephemeral ports of the kernel. */
  private static final int FIRST_PORT = 20_000;

  private static final int PORTS = 10_000;

  private static final Pattern ADDRESS = Pattern.compile("\\binet6? ([0-9a-fA-F.:]+)/");

  private final int ranks;
  private final List<String> namespaces;
  private final int ranksOfEach;
  private final String master;
  private final int port;
  private final String secret;
  private final Map<String, String> settings;

  private NamespaceJob(
      int ranks, List<String> namespaces, String master, Map<String, String> settings) {
    SecureRandom random = new SecureRandom();
    byte[] bytes = new byte[SECRET_BYTES];
    random.nextBytes(bytes);
    this.ranks = ranks;
    this.namespaces = List.copyOf(namespaces);
    ranksOfEach = Math.ceilDiv(ranks, namespaces.size());
    this.master = master;
    this.settings = settings;
    // One for the rendezvous, the next for MASTER_PORT of other programs.
    port = FIRST_PORT + 2 * random.nextInt(PORTS / 2);
    secret = HexFormat.of().formatHex(bytes);
  }

  /**
   * Checks the namespaces and reads their addresses.
   *
   * @param settings variables with the job's name and times
   * @throws CommandFailure if a namespace does not exist, or has no address
   */
  static NamespaceJob open(int ranks, List<String> namespaces, Map<String, String> settings)
      throws InterruptedException {
    OpenFiles.requireForRanks(ranks);
    String first = "";
    for (String namespace : namespaces) {
      String address = address(namespace);
      first = first.isEmpty() ? address : first;
    }
    return new NamespaceJob(ranks, namespaces, first, settings);
  }

  private static String address(String namespace) throws InterruptedException {
    IpTool.Answer listed =
        IpTool.run("-n", namespace, "-o", "addr", "show", "up", "scope", "global");
    if (!listed.ok()) {
      throw new CommandFailure(
          ErrorCode.NO_SUCH_NAMESPACE,
          ExitCodes.UNAVAILABLE,
          "--hosts %s: %s; no such network namespace: create it as root with 'ip netns add %s'"
              .formatted(namespace, listed.text().strip(), namespace));
    }
    Matcher matcher = ADDRESS.matcher(listed.text());
    if (!matcher.find()) {
      throw new CommandFailure(
          ErrorCode.NAMESPACE_WITHOUT_ADDRESS,
          ExitCodes.UNAVAILABLE,
          "--hosts %s: none of its interfaces is up with an address: 'ip -n %s addr add ... dev ...'"
              .formatted(namespace, namespace));
    }
    return matcher.group(1);
  }

  /** Number of hosts with ranks, if all but the last have the same number of ranks. */
  static int hosts(int ranks, int hosts) {
    return Math.ceilDiv(ranks, Math.ceilDiv(ranks, hosts));
  }

  private int host(int rank) {
    return rank / ranksOfEach;
  }

  /** The command of a rank, inside its namespace. */
  List<String> command(int rank, List<String> command) {
    List<String> inside = new ArrayList<>();
    inside.addAll(List.of("ip", "netns", "exec", namespaces.get(host(rank))));
    inside.addAll(command);
    return inside;
  }

  /** Variables of a rank, as {@link LocalJob#environment}. */
  Map<String, String> environment(int rank) {
    int local = rank % ranksOfEach;
    int ranksHere = Math.min(ranksOfEach, ranks - host(rank) * ranksOfEach);
    GroupConfig config =
        LaunchEnvironment.ofAllRanks(settings)
            .rank(rank)
            .size(ranks)
            .rendezvous(master, port)
            .secret(secret)
            .hostsRendezvous(rank == 0)
            .build();
    Map<String, String> variables = new LinkedHashMap<>();
    variables.putAll(LaunchEnvironment.variables(config, local));
    variables.put("RANK", String.valueOf(rank));
    variables.put("WORLD_SIZE", String.valueOf(ranks));
    variables.put("LOCAL_RANK", String.valueOf(local));
    variables.put("LOCAL_WORLD_SIZE", String.valueOf(ranksHere));
    variables.put("MASTER_ADDR", master);
    variables.put("MASTER_PORT", String.valueOf(port + 1));
    return variables;
  }
}
