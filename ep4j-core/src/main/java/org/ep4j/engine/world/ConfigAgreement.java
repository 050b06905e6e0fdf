package org.ep4j.engine.world;

import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Objects;
import java.util.function.Function;
import org.ep4j.config.BufferConfig;
import org.ep4j.config.HighThroughputConfig;
import org.ep4j.config.LowLatencyConfig;
import org.ep4j.error.ConfigurationMismatchException;
import org.ep4j.error.ErrorCode;
import org.ep4j.group.Group;
import org.ep4j.memory.SymmetricMemory;
import org.ep4j.routing.ExpertPlacement;

/**
 * The first exchange between ranks at open: their configuration, field by field. Every rank throws
 * the same error, which names the differing rank and field.
 */
public final class ConfigAgreement {
  /** Increases when words in shared memory, or messages, change their offset or meaning. */
  private static final int PROTOCOL = 4;

  /** Index of the host among the fields; hosts may differ. */
  private static final int HOST = 1;

  /** Value of the fields of a kind of operation that a buffer does not have. */
  private static final String NONE = "none";

  private static final System.Logger LOG = System.getLogger("org.ep4j");

  private static final Path BOOT_ID = Path.of("/proc/sys/kernel/random/boot_id");

  private ConfigAgreement() {}

  /**
   * Exchanges the configurations; collective. A node is at most a host.
   *
   * @return which ranks share memory
   */
  public static Nodes require(Group group, BufferConfig config) {
    return require(group, config, hostOf(group), HostDomains.NONE);
  }

  /**
   * The same where hosts may form a node together.
   *
   * @param host {@link #hostOf(Group)} of this rank
   * @param domains which hosts form a node
   */
  public static Nodes require(Group group, BufferConfig config, String host, HostDomains domains) {
    byte[] mine = encode(fields(host, config));
    byte[][] all = group.allGather(mine, config.timeout());
    List<String> differences = new ArrayList<>();
    for (int r = 1; r < all.length; r++) {
      compare(all[0], 0, all[r], r, differences);
    }
    if (!differences.isEmpty()) {
      throw new ConfigurationMismatchException(
          ErrorCode.CONFIGURATIONS_DIFFER,
          "the ranks cannot open a buffer together: " + String.join("; ", differences));
    }
    String[] hosts = new String[all.length];
    for (int r = 0; r < all.length; r++) {
      hosts[r] = decode(all[r])[HOST][1];
    }
    Nodes nodes = nodes(config.ranksPerNode(), hosts, domains);
    if (group.rank() == 0) {
      warnOfContainers(hosts, nodes);
    }
    return nodes;
  }

  /**
   * The ranks that share memory, for callers without a buffer; collective.
   *
   * @param ranksPerNode as {@link BufferConfig#ranksPerNode()}
   */
  public static Nodes nodes(Group group, int ranksPerNode, Duration timeout) {
    String mine = hostOf(group);
    byte[][] all = group.allGather(mine.getBytes(StandardCharsets.UTF_8), timeout);
    String[] hosts = new String[all.length];
    for (int r = 0; r < all.length; r++) {
      hosts[r] = new String(all[r], StandardCharsets.UTF_8);
    }
    return nodes(ranksPerNode, hosts, HostDomains.NONE);
  }

  /** Ranks of one host that lie in several containers transfer over a wire, which is slower. */
  private static void warnOfContainers(String[] hosts, Nodes nodes) {
    for (int rank = 1; rank < hosts.length; rank++) {
      if (Nodes.areContainersOfOneHost(hosts[rank], hosts[rank - 1])
          && !nodes.together(rank, rank - 1)) {
        LOG.log(
            System.Logger.Level.WARNING,
            "ranks {0} and {1} run on one host but do not share {2}, so they are different nodes and"
                + " reach each other over a wire: {3}",
            rank - 1,
            rank,
            SymmetricMemory.directory(System.getenv()),
            Nodes.SHARE_MEMORY);
        return;
      }
    }
  }

  private static Nodes nodes(int ranksPerNode, String[] hosts, HostDomains domains) {
    String[] of = domains.of(hosts);
    return ranksPerNode > 0 ? Nodes.declared(ranksPerNode, hosts, of) : Nodes.found(hosts, of);
  }

  /** The configuration of a rank, field by field. */
  static byte[] describe(Group group, BufferConfig config) {
    return encode(fields(hostOf(group), config));
  }

  /** The field of a description that identifies the host. */
  static String hostOf(byte[] description) {
    return decode(description)[HOST][1];
  }

  private static String[][] fields(String host, BufferConfig config) {
    return new String[][] {
      {"protocol version", Integer.toString(PROTOCOL)},
      {"host", host},
      {"ranksPerNode", Integer.toString(config.ranksPerNode())},
      {"wire", config.wire()},
      {"wireOptions", config.wireOptions().toString()},
      {"hidden", Integer.toString(config.hidden())},
      {"topK", Integer.toString(config.topK())},
      {"experts", Integer.toString(config.experts())},
      {"placement", placement(Objects.requireNonNull(config.placement(), "settled placement"))},
      {"highThroughput.maxTokens", highThroughput(config, c -> c.maxTokens())},
      {"highThroughput.rowDType", highThroughput(config, c -> c.rowDType())},
      {"highThroughput.layouts", highThroughput(config, c -> c.layouts())},
      {"highThroughput.maxReceiveRows", highThroughput(config, ConfigAgreement::rows)},
      {"highThroughput.expertAlignment", highThroughput(config, c -> c.expertAlignment())},
      {"highThroughput.combineInPlace", highThroughput(config, c -> c.combineInPlace())},
      {"highThroughput.lostRanks", highThroughput(config, c -> c.lostRanks())},
      {"lowLatency.maxTokens", lowLatency(config, c -> c.maxTokens())},
      {"lowLatency.masking", lowLatency(config, c -> c.masking())},
      {"timeout", config.timeout().toString()},
      {"parallelism", Integer.toString(config.parallelism())},
      {"engine", config.engine()},
      {"backend", config.backend()},
    };
  }

  private static String highThroughput(
      BufferConfig config, Function<HighThroughputConfig, Object> field) {
    return config.highThroughput().map(field).map(Object::toString).orElse(NONE);
  }

  private static String lowLatency(BufferConfig config, Function<LowLatencyConfig, Object> field) {
    return config.lowLatency().map(field).map(Object::toString).orElse(NONE);
  }

  private static Object rows(HighThroughputConfig part) {
    return part.maxReceiveRows().isPresent() ? part.maxReceiveRows().getAsLong() : "the worst case";
  }

  /** Identifies what ranks of this rank's host share. */
  public static String hostOf(Group group) {
    return group.inProcess() ? "one process" : host();
  }

  /**
   * Identifies what ranks of a node share: the running system, then the directory of shared memory,
   * because containers on one host may have one each.
   */
  private static String host() {
    return boot() + " " + sharedMemory();
  }

  private static String sharedMemory() {
    try {
      return SymmetricMemory.directoryId(System.getenv());
    } catch (IOException | UnsupportedOperationException e) {
      return "unknown"; // opening a buffer then says what is wrong with the directory
    }
  }

  private static String boot() {
    try {
      return Files.readString(BOOT_ID).strip();
    } catch (IOException e) {
      return "unknown (" + BOOT_ID + " cannot be read)";
    }
  }

  private static String placement(ExpertPlacement placement) {
    StringBuilder text = new StringBuilder();
    for (int e = 0; e < placement.experts(); e++) {
      text.append(e == 0 ? "" : ",").append(placement.rankOf(e));
    }
    return text.toString();
  }

  private static byte[] encode(String[][] fields) {
    StringBuilder text = new StringBuilder();
    for (String[] field : fields) {
      text.append(field[0]).append('=').append(field[1]).append('\n');
    }
    return text.toString().getBytes(StandardCharsets.UTF_8);
  }

  private static String[][] decode(byte[] bytes) {
    return new String(bytes, StandardCharsets.UTF_8)
        .lines()
        .map(line -> line.split("=", 2))
        .filter(field -> field.length == 2)
        .toArray(String[][]::new);
  }

  /**
   * Adds the fields in which the description of {@code rank} differs from that of {@code
   * reference}.
   */
  static void compare(
      byte[] firstBytes, int reference, byte[] otherBytes, int rank, List<String> differences) {
    String[][] first = decode(firstBytes);
    String[][] other = decode(otherBytes);
    if (first.length != other.length) {
      differences.add("rank " + rank + " runs another version of ep4j than rank " + reference);
      return;
    }
    for (int i = 0; i < first.length; i++) {
      if (!first[i][0].equals(other[i][0])) {
        differences.add("rank " + rank + " runs another version of ep4j than rank " + reference);
        return;
      }
      if (i != HOST && !first[i][1].equals(other[i][1])) {
        differences.add(difference(first[i][0], first[i][1], reference, other[i][1], rank));
      }
    }
  }

  private static String difference(
      String field, String first, int reference, String other, int rank) {
    if (field.equals("placement")) {
      return "rank " + rank + " differs in placement: " + firstMove(first, reference, other);
    }
    return "rank "
        + rank
        + " differs in "
        + field
        + ": "
        + other
        + " there, "
        + first
        + " on rank "
        + reference;
  }

  private static String firstMove(String first, int reference, String other) {
    String[] a = first.split(",");
    String[] b = other.split(",");
    for (int e = 0; e < Math.min(a.length, b.length); e++) {
      if (!a[e].equals(b[e])) {
        return "expert "
            + e
            + " on rank "
            + b[e]
            + " there, on rank "
            + a[e]
            + " on rank "
            + reference;
      }
    }
    return b.length + " experts there, " + a.length + " on rank " + reference;
  }
}
