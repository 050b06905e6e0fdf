package org.ep4j.cli.bench;

import java.util.List;
import org.ep4j.cli.launch.Agreement;
import org.ep4j.cuda.probe.HostLinkProbe;
import org.ep4j.group.Group;

/**
 * What GPUs of several nodes can exchange at most, a rank: what a wire that carries rows does
 * alone, or, where kernels write the memory of the host, what the copy engines carry between all
 * GPUs and such memory, both ways at once.
 */
final class NodeCeiling {
  private static final List<String> CARRYING = List.of("tcp", "ucx", "verbs");
  private static final int STREAMS = 3;
  private static final int TRIAL = 4;
  private static final int COPIES = 32;

  private final DeviceWork work;

  NodeCeiling(DeviceWork work) {
    this.work = work;
  }

  private boolean carried() {
    return CARRYING.contains(work.settings.nodes().wire());
  }

  /** What is measured, for people. */
  String name() {
    return carried()
        ? work.settings.nodes().wire() + " alone"
        : "copies to and from memory of the host";
  }

  /** 10^9 bytes a second and direction; collective. */
  double gbps() {
    Group group = work.context.group();
    Agreement agreement = work.context.agreement();
    if (carried()) {
      try (WireCeiling wire = new WireCeiling(group, agreement, work.settings.nodes())) {
        for (int i = 0; i < STREAMS; i++) {
          wire.measure();
        }
        return wire.gbps();
      }
    }
    try (HostLinkProbe probe = HostLinkProbe.open(work.device)) {
      probe.measure(TRIAL);
      agreement.barrier();
      double own = probe.measure(COPIES);
      double slowest = own;
      for (long[] each : agreement.numbers(new long[] {Double.doubleToRawLongBits(own)})) {
        slowest = Math.min(slowest, Double.longBitsToDouble(each[0]));
      }
      return slowest;
    }
  }
}
