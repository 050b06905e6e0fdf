package org.ep4j.cli.bench;

import java.time.Duration;
import java.util.List;
import java.util.Set;
import org.ep4j.bench.CommandAgreement;
import org.ep4j.bench.NodeChoice;
import org.ep4j.bench.wire.WireCeiling;
import org.ep4j.config.WireName;
import org.ep4j.cuda.backend.BackendProbe;
import org.ep4j.cuda.backend.BackendWorld;
import org.ep4j.cuda.driver.CudaDevice;
import org.ep4j.cuda.probe.HostLinkProbe;
import org.ep4j.memory.Participants;

/**
 * Maximum rate of the exchange between GPUs of several nodes, per rank: the rate of the wire alone
 * if it carries rows, or, if kernels write host memory, the rate of the copy engines between all
 * GPUs and host memory in both directions at once.
 */
final class NodeCeiling {
  /**
   * With these wires, kernels write host memory of the other node, and the wire carries no rows.
   */
  private static final Set<String> MAPPED = Set.of(WireName.STAGED, WireName.INPROC, WireName.SHM);

  private static final int STREAMS = 3;
  private static final int TRIAL = 4;
  private static final int COPIES = 32;
  private static final Duration TIMEOUT = Duration.ofMinutes(1);

  private final RankContext context;
  private final NodeChoice nodes;
  private final CudaDevice device;

  private String name = "copies to and from host memory";

  /**
   * @param wire wire of the buffer, or auto
   * @param device device of this rank
   */
  NodeCeiling(RankContext context, String wire, CudaDevice device) {
    this.context = context;
    nodes = new NodeChoice(context.settings().nodes().ranksPerNode(), wire);
    this.device = device;
  }

  /** Name of the measured ceiling. */
  String name() {
    return name;
  }

  /** GB/s in each direction; NaN if nothing is measured; collective. */
  double gbps() {
    if (nodes.wire().equals(WireName.BACKEND)) {
      name = "none, the backend carries the rows";
      return Double.NaN;
    }
    double carried = MAPPED.contains(nodes.wire()) ? 0 : carried();
    return carried == 0 ? copied() : carried;
  }

  /** GB/s of a wire that carries rows; 0 if the wire of the ranks carries none. */
  private double carried() {
    try (WireCeiling wire = new WireCeiling(context.group(), context.agreement(), nodes)) {
      if (MAPPED.contains(wire.wire())) {
        return 0;
      }
      name = wire.wire() + " alone";
      for (int i = 0; i < STREAMS; i++) {
        wire.measure();
      }
      return wire.gbps();
    }
  }

  /** GB/s of copies. Ranks that share a GPU share its link: one of them measures for all. */
  private double copied() {
    CommandAgreement agreement = context.agreement();
    BackendWorld world =
        BackendWorld.gather(
            Participants.ofAll(context.group()),
            device,
            TIMEOUT,
            BackendProbe.found("", "", List.of()));
    boolean measures = world.isFirstOnDevice();
    try (HostLinkProbe probe = HostLinkProbe.open(device)) {
      if (measures) {
        probe.measure(TRIAL);
      }
      agreement.barrier();
      double own =
          measures ? probe.measure(COPIES) / world.ranksOnDevice() : Double.POSITIVE_INFINITY;
      double slowest = own;
      for (long[] each : agreement.numbers(new long[] {Double.doubleToRawLongBits(own)})) {
        slowest = Math.min(slowest, Double.longBitsToDouble(each[0]));
      }
      return slowest;
    }
  }
}
