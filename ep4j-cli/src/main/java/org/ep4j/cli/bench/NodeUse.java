package org.ep4j.cli.bench;

/** Notes what the processors do while GPUs of several nodes exchange rows. */
final class NodeUse {
  private final DeviceWork work;
  private final CpuTime before = CpuTime.now();
  private final long beganAt = System.nanoTime();

  /** Begins here. */
  NodeUse(DeviceWork work) {
    this.work = work;
  }

  /** Ends here: what the ranks took since then, and the ceiling, measured now; collective. */
  NodeLimits limits() {
    CpuTime used = CpuTime.now().since(before);
    double wall = System.nanoTime() - beganAt;
    work.context.at("measuring the ceiling between nodes");
    NodeCeiling ceiling = new NodeCeiling(work);
    double gbps = ceiling.gbps();
    // Threads of one JVM have all seen the same.
    boolean counts = !work.context.group().inProcess() || work.rank == 0;
    long[] mine = counts ? new long[] {used.proxies(), used.others()} : new long[2];
    double proxies = 0;
    double others = 0;
    for (long[] each : work.context.agreement().numbers(mine)) {
      proxies += each[0] / wall;
      others += each[1] / wall;
    }
    return new NodeLimits(ceiling.name(), gbps, proxies, others);
  }
}
