package org.ep4j.cli.launch;

import org.ep4j.cli.CommandSpecs;
import org.ep4j.cli.HelpGroup;
import org.ep4j.config.BufferConfig;
import org.ep4j.config.WireName;
import org.ep4j.error.ErrorCode;
import org.jspecify.annotations.Nullable;
import picocli.CommandLine.Model.CommandSpec;
import picocli.CommandLine.Option;

/** Options that declare several nodes, which exchange rows over a wire. */
@HelpGroup(HelpGroup.RANKS)
public final class NodeOptions {
  @Option(
      names = "--nodes",
      paramLabel = "N",
      description =
          "Split the ranks into N nodes, which share no memory and exchange rows over a wire;"
              + " default: the ranks of a host are a node, or of hosts that NVLink joins.")
  private @Nullable Integer nodes;

  @Option(
      names = "--ranks-per-node",
      paramLabel = "N",
      description = "Number of consecutive ranks of a node; the last node may have fewer.")
  private @Nullable Integer ranksPerNode;

  @Option(
      names = "--disable-nvlink",
      description = "Make each rank a node, so that all rows use the wire.")
  private boolean withoutNvlink;

  @Option(
      names = "--wire",
      paramLabel = "NAME",
      description =
          "Wire between nodes: inproc (threads), shm, tcp, ucx, verbs, nccl (one GPU per rank),"
              + " staged (GPUs: through host memory), backend (GPUs: device functions of NCCL or"
              + " NVSHMEM) or auto; default auto: nccl with --backend nccl, else inproc"
              + " (threads), shm (one host), or between hosts verbs if it reaches all ranks, else"
              + " tcp.")
  private @Nullable String wire;

  /** Used by picocli. */
  public NodeOptions() {}

  /** Whether the options declare nodes. */
  public boolean declared() {
    return nodes != null || ranksPerNode != null || withoutNvlink;
  }

  /** Default number of ranks: about {@code preferred}, the same number in each node. */
  public int ranks(int preferred) {
    if (nodes == null || nodes < 1) {
      return preferred;
    }
    return nodes * (ranksPerNode == null ? Math.ceilDiv(preferred, nodes) : ranksPerNode);
  }

  /** Ranks of a node; 0 without declared nodes. */
  public int ranksPerNode(int ranks) {
    if (ranksPerNode != null) {
      return ranksPerNode;
    }
    if (withoutNvlink) {
      return 1;
    }
    return nodes == null ? 0 : Math.ceilDiv(ranks, nodes);
  }

  /** The wire between nodes. */
  public String wire() {
    return wire == null ? WireName.AUTO : wire;
  }

  /**
   * Refuses options that do not fit the number of ranks.
   *
   * @param joins whether the ranks are a launcher's, whose hosts are nodes without a declaration
   */
  public void check(CommandSpec spec, int ranks, boolean joins) {
    if (nodes != null) {
      CommandSpecs.checkValue(
          spec, nodes >= 1 && nodes <= ranks, "--nodes", nodes, "1.." + ranks + ", the ranks");
    }
    if (ranksPerNode != null) {
      CommandSpecs.checkValue(spec, ranksPerNode >= 1, "--ranks-per-node", ranksPerNode, ">= 1");
    }
    CommandSpecs.check(
        spec,
        !withoutNvlink || (nodes == null && ranksPerNode == null),
        ErrorCode.CONFLICTING_OPTIONS,
        "--disable-nvlink makes each rank a node: leave out --nodes and --ranks-per-node");
    CommandSpecs.check(
        spec,
        wire == null || declared() || joins,
        ErrorCode.INAPPLICABLE_OPTION,
        "--wire " + wire + " connects nodes: declare them with --nodes or --disable-nvlink");
    if (nodes != null) {
      int each = ranksPerNode(ranks);
      CommandSpecs.check(
          spec,
          Math.ceilDiv(ranks, each) == nodes,
          ErrorCode.CONFLICTING_OPTIONS,
          "%d ranks, %d per node, are %d nodes, but --nodes = %d: make them agree"
              .formatted(ranks, each, Math.ceilDiv(ranks, each), nodes));
    }
  }

  /**
   * Refuses an unknown or unusable wire, see {@link WireNames#check}.
   *
   * @param device whether the CUDA engine runs, which has two more wires
   * @param joins whether this process is a rank
   */
  public void checkWire(CommandSpec spec, boolean device, boolean joins) {
    boolean own = WireName.STAGED.equals(wire) || WireName.BACKEND.equals(wire);
    if (wire != null && !(device && own)) {
      WireNames.check(spec, wire, joins);
    }
  }

  /** Adds the declared nodes to a configuration. */
  public BufferConfig.Builder declare(BufferConfig.Builder config, int ranks) {
    return config.ranksPerNode(ranksPerNode(ranks)).wire(wire());
  }
}
