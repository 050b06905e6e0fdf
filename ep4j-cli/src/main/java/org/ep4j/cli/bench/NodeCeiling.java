package org.ep4j.cli.bench;

import java.time.Duration;
import java.util.List;
import java.util.Set;
import org.ep4j.cli.launch.CommandAgreement;
import org.ep4j.cuda.backend.BackendProbe;
import org.ep4j.cuda.backend.BackendWorld;
import org.ep4j.cuda.driver.CudaDevice;
import org.ep4j.cuda.probe.HostLinkProbe;
import org.ep4j.memory.Participants;
import org.ep4j.wire.WireConfig;

/**
 * What GPUs of several nodes can exchange at most, a rank: what a wire that carries rows does
 * alone, or, where kernels write the memory of the host, what the copy engines carry between all
 * GPUs and such memory, both ways at once.
 */
final class NodeCeiling {
  /** Where these join ranks, kernels write each other's memory of the host: the wire rests. */
  private static final Set<String> MAPPED = Set.of(WireConfig.STAGED, "inproc", "shm");

  private static final int STREAMS = 3;
  private static final int TRIAL = 4;
  private static final int COPIES = 32;
  private static final Duration TIMEOUT = Duration.ofMinutes(1);

  private final RankContext context;
  private final NodeChoice nodes;
  private final CudaDevice device;

  private String name = "copies to and from memory of the host";

  /**
   * @param wire that the buffer has been opened with, as far as it was named
   * @param device of this rank
   */
  NodeCeiling(RankContext context, String wire, CudaDevice device) {
    this.context = context;
    nodes = new NodeChoice(context.settings().nodes().ranksPerNode(), wire);
    this.device = device;
  }

  /** What has been measured, for people. */
  String name() {
    return name;
  }

  /** 10^9 bytes a second and direction; not a number where nothing is measured; collective. */
  double gbps() {
    if (nodes.wire().equals(WireConfig.BACKEND)) {
      name = "none, the backend carries by itself";
      return Double.NaN;
    }
    double carried = MAPPED.contains(nodes.wire()) ? 0 : carried();
    return carried == 0 ? copied() : carried;
  }

  /** The same of a wire that carries rows; 0 if the one that the ranks have does not. */
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

  /** Ranks that share a GPU share its link: one of them measures, and each has its part of it. */
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
