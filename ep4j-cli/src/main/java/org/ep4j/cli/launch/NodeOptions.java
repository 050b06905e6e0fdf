package org.ep4j.cli.launch;

import org.ep4j.BufferConfig;
import org.ep4j.cli.CommandSpecs;
import org.ep4j.wire.WireConfig;
import org.jspecify.annotations.Nullable;
import picocli.CommandLine.Model.CommandSpec;
import picocli.CommandLine.Option;

/** Options that declare ranks to be of several nodes, which reach each other over a wire. */
public final class NodeOptions {
  @Option(
      names = "--nodes",
      paramLabel = "N",
      description =
          "Declare the ranks to be of N nodes, which share no memory and reach each other over a"
              + " wire; default: the ranks of a host are a node.")
  private @Nullable Integer nodes;

  @Option(
      names = "--ranks-per-node",
      paramLabel = "N",
      description = "Consecutive ranks of a node, the last node may have fewer.")
  private @Nullable Integer ranksPerNode;

  @Option(
      names = "--disable-nvlink",
      description = "Make each rank a node of its own, so that all rows travel over the wire.")
  private boolean withoutNvlink;

  @Option(
      names = "--wire",
      paramLabel = "NAME",
      description =
          "Wire between nodes: inproc (threads), shm, tcp, ucx, verbs, nccl (a GPU a rank), staged"
              + " (GPUs: through the memory of their host), backend (GPUs: device functions of NCCL or"
              + " NVSHMEM) or auto; default auto: nccl with --backend nccl, else the best of the first"
              + " three that all ranks have.")
  private @Nullable String wire;

  /** Used by picocli. */
  public NodeOptions() {}

  /** Whether nodes were declared. */
  public boolean declared() {
    return nodes != null || ranksPerNode != null || withoutNvlink;
  }

  /** Number of ranks if nobody says it otherwise: about so many, the same in each node. */
  public int ranks(int preferred) {
    if (nodes == null || nodes < 1) {
      return preferred;
    }
    return nodes * (ranksPerNode == null ? Math.ceilDiv(preferred, nodes) : ranksPerNode);
  }

  /** Ranks of a node of so many ranks; 0 if no nodes were declared. */
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
    return wire == null ? "auto" : wire;
  }

  /** Refuses what cannot be for so many ranks. */
  public void check(CommandSpec spec, int ranks) {
    CommandSpecs.check(
        spec, nodes == null || nodes >= 1, "--nodes is " + nodes + "; it must be >= 1");
    CommandSpecs.check(
        spec,
        ranksPerNode == null || ranksPerNode >= 1,
        "--ranks-per-node is " + ranksPerNode + "; it must be >= 1");
    CommandSpecs.check(
        spec,
        !withoutNvlink || (nodes == null && ranksPerNode == null),
        "--disable-nvlink makes each rank a node: leave out --nodes and --ranks-per-node");
    CommandSpecs.check(
        spec,
        wire == null || declared(),
        "--wire " + wire + " is between nodes: declare them with --nodes, or --disable-nvlink");
    if (nodes != null) {
      int each = ranksPerNode(ranks);
      CommandSpecs.check(
          spec,
          Math.ceilDiv(ranks, each) == nodes,
          "%d ranks of %d a node make %d nodes, but --nodes is %d: make them agree"
              .formatted(ranks, each, Math.ceilDiv(ranks, each), nodes));
    }
  }

  /**
   * Refuses a wire that is not there, see {@link WireNames#check}.
   *
   * @param device whether the buffers will be those of GPUs, which know two of their own
   * @param joins whether this process is a rank
   */
  public void checkWire(CommandSpec spec, boolean device, boolean joins) {
    boolean own = WireConfig.STAGED.equals(wire) || WireConfig.BACKEND.equals(wire);
    if (wire != null && !(device && own)) {
      WireNames.check(spec, wire, joins);
    }
  }

  /** The configuration for so many ranks, with the nodes that were declared. */
  public BufferConfig.Builder declare(BufferConfig.Builder config, int ranks) {
    return config.ranksPerNode(ranksPerNode(ranks)).wire(wire());
  }
}
