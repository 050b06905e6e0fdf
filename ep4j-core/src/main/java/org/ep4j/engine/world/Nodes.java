package org.ep4j.engine.world;

import java.util.Arrays;
import java.util.List;
import java.util.Objects;
import org.ep4j.config.BufferConfig;
import org.ep4j.error.ConfigurationMismatchException;
import org.ep4j.error.ErrorCode;

/**
 * The ranks that can load and store each other's memory: a partition of the ranks into nodes, the
 * same on all ranks. The ranks of a node are consecutive, so ranks and nodes have the same order,
 * and so are the ranks of a host in it.
 */
public final class Nodes {
  /** First rank of each node, then the number of ranks. */
  private final int[] first;

  private final int[] nodeOf;

  /** Remedy where containers of one host do not share memory. */
  static final String SHARE_MEMORY =
      "give them one /dev/shm (hostIPC, --ipc=host or a shared volume of memory), or name a"
          + " directory that they share in EP4J_SHM_DIR";

  /** For each rank, the first rank on its host. */
  private final int[] hostOf;

  private Nodes(int[] first, int[] hostOf) {
    this.first = first;
    this.hostOf = hostOf;
    nodeOf = new int[hostOf.length];
    for (int node = 0; node < count(); node++) {
      Arrays.fill(nodeOf, first(node), end(node), node);
    }
  }

  /** Nodes from the {@link #words} of another rank. */
  static Nodes of(int[] words) {
    // The bounds end with the number of ranks, which is also the number of words after them.
    int bounds = 2;
    while (bounds + words[bounds - 1] != words.length) {
      bounds++;
    }
    return new Nodes(Arrays.copyOf(words, bounds), Arrays.copyOfRange(words, bounds, words.length));
  }

  /**
   * First rank of each node, the number of ranks, then for each rank the first rank on its host.
   */
  int[] words() {
    int[] words = Arrays.copyOf(first, first.length + hostOf.length);
    System.arraycopy(hostOf, 0, words, first.length, hostOf.length);
    return words;
  }

  /** All ranks in one node. */
  public static Nodes one(int ranks) {
    return new Nodes(new int[] {0, ranks}, new int[ranks]);
  }

  /** Nodes as a configuration declares them: one node if the hosts decide. */
  public static Nodes of(BufferConfig config) {
    int ranks = Objects.requireNonNull(config.placement(), "settled placement").ranks();
    if (config.ranksPerNode() == 0) {
      return one(ranks);
    }
    return new Nodes(bounds(config.ranksPerNode(), ranks), new int[ranks]);
  }

  private static int[] bounds(int ranksPerNode, int ranks) {
    int[] first = new int[Math.ceilDiv(ranks, ranksPerNode) + 1];
    for (int node = 0; node < first.length; node++) {
      first[node] = Math.min(node * ranksPerNode, ranks);
    }
    return first;
  }

  /**
   * Nodes of {@code ranksPerNode} ranks; the last one may have fewer.
   *
   * @param hosts host identity of each rank
   * @param domains see {@link HostDomains#of}
   * @throws ConfigurationMismatchException if a node would span two domains, or ranks of a host in
   *     it are not consecutive
   */
  static Nodes declared(int ranksPerNode, String[] hosts, String[] domains) {
    int[] first = bounds(ranksPerNode, hosts.length);
    for (int rank = 0; rank < hosts.length; rank++) {
      int head = rank / ranksPerNode * ranksPerNode;
      if (domains[rank].equals(domains[head])) {
        requireConsecutive(hosts, head, rank);
        continue;
      }
      if (areContainersOfOneHost(hosts[rank], hosts[head])) {
        throw new ConfigurationMismatchException(
            ErrorCode.NODE_ON_TWO_HOSTS,
            ("ranks %d and %d run on one host in containers that do not share memory, but"
                    + " ranksPerNode = %d puts them into one node: %s, or leave ranksPerNode out")
                .formatted(rank, head, ranksPerNode, SHARE_MEMORY));
      }
      throw new ConfigurationMismatchException(
          ErrorCode.NODE_ON_TWO_HOSTS,
          ("ranks %d and %d run on different hosts, but ranksPerNode = %d puts them into one"
                  + " node: start that many ranks on each host, or leave ranksPerNode out")
              .formatted(rank, head, ranksPerNode));
    }
    return new Nodes(first, hostOf(hosts));
  }

  /** Requires that no rank of another host stands between {@code rank} and those of its host. */
  private static void requireConsecutive(String[] hosts, int from, int rank) {
    if (rank == from || hosts[rank].equals(hosts[rank - 1])) {
      return;
    }
    for (int earlier = from; earlier < rank; earlier++) {
      if (hosts[earlier].equals(hosts[rank])) {
        throw new ConfigurationMismatchException(
            ErrorCode.HOST_RANKS_NOT_CONSECUTIVE,
            ("ranks %d and %d run on one host, but rank %d between them on another: number the"
                    + " ranks host by host (mpirun --map-by slot, srun --distribution=block)")
                .formatted(earlier, rank, rank - 1));
      }
    }
  }

  /** Whether two identities name one running system with different shared memory. */
  static boolean areContainersOfOneHost(String host, String other) {
    return !host.equals(other) && host.split(" ", 2)[0].equals(other.split(" ", 2)[0]);
  }

  private static int[] hostOf(String[] hosts) {
    List<String> all = List.of(hosts);
    int[] of = new int[hosts.length];
    Arrays.setAll(of, rank -> all.indexOf(hosts[rank]));
    return of;
  }

  /**
   * One node for each row of ranks of one domain.
   *
   * @param hosts host identity of each rank
   * @param domains see {@link HostDomains#of}
   * @throws ConfigurationMismatchException if the ranks of a host are not consecutive
   */
  static Nodes found(String[] hosts, String[] domains) {
    int[] first = new int[hosts.length + 1];
    int nodes = 0;
    for (int rank = 0; rank < hosts.length; rank++) {
      requireConsecutive(hosts, 0, rank);
      if (rank == 0 || !domains[rank].equals(domains[rank - 1])) {
        first[nodes++] = rank;
      }
    }
    first[nodes] = hosts.length;
    return new Nodes(Arrays.copyOf(first, nodes + 1), hostOf(hosts));
  }

  /** Number of nodes. */
  public int count() {
    return first.length - 1;
  }

  /** Ranks of each node, of which the last may have fewer; 0 if nodes differ otherwise. */
  public int ranksPerNode() {
    int size = first[1];
    for (int node = 0; node < first.length; node++) {
      if (first[node] != Math.min(node * size, nodeOf.length)) {
        return 0;
      }
    }
    return size;
  }

  /** Number of ranks. */
  public int ranks() {
    return nodeOf.length;
  }

  /** Node of a rank. */
  public int of(int rank) {
    return nodeOf[rank];
  }

  /** First rank of a node. */
  public int first(int node) {
    return first[node];
  }

  /** The rank after the last rank of a node. */
  public int end(int node) {
    return first[node + 1];
  }

  /**
   * Whether two ranks reach each other's memory: that of their GPUs if they {@linkplain #shareHost
   * share no host}.
   */
  public boolean together(int rank, int other) {
    return nodeOf[rank] == nodeOf[other];
  }

  /** Whether two ranks of a node share host memory. */
  public boolean shareHost(int rank, int other) {
    return together(rank, other) && hostOf[rank] == hostOf[other];
  }

  /** First of the consecutive ranks that {@linkplain #shareHost share the host} of {@code rank}. */
  public int firstOnHost(int rank) {
    int first = rank;
    while (first > 0 && shareHost(rank, first - 1)) {
      first--;
    }
    return first;
  }

  /** The rank after the last of those ranks. */
  public int endOnHost(int rank) {
    int end = rank + 1;
    while (end < ranks() && shareHost(rank, end)) {
      end++;
    }
    return end;
  }

  /** Whether the node of a rank has ranks of several hosts. */
  public boolean spansHosts(int rank) {
    int node = of(rank);
    return firstOnHost(rank) > first(node) || endOnHost(rank) < end(node);
  }

  /**
   * Number of ranks on the host of {@code rank}, in its node and in other nodes declared on that
   * host.
   */
  public int sharers(int rank) {
    int count = 0;
    for (int host : hostOf) {
      count += host == hostOf[rank] ? 1 : 0;
    }
    return count;
  }

  @Override
  public String toString() {
    return Arrays.toString(first);
  }
}
