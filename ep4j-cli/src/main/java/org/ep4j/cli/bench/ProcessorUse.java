package org.ep4j.cli.bench;

import org.ep4j.ExpertBuffer;
import org.ep4j.bench.CpuTime;
import org.ep4j.bench.NodeLimits;
import org.ep4j.cuda.driver.CudaDevice;

/** Measures the CPU use while GPUs of several nodes exchange rows. */
final class ProcessorUse {
  private final RankContext context;
  private final NodeCeiling ceiling;
  private final CpuTime before = CpuTime.now();
  private final long beganAt = System.nanoTime();

  /** Starts the measurement. */
  ProcessorUse(RankContext context, ExpertBuffer buffer, CudaDevice device) {
    this.context = context;
    ceiling = new NodeCeiling(context, buffer.config().wire(), device);
  }

  /**
   * Ends the measurement; returns the CPU use and the ceiling, which this call measures;
   * collective.
   */
  NodeLimits limits() {
    CpuTime used = CpuTime.now().since(before);
    double wall = System.nanoTime() - beganAt;
    context.at("measuring the ceiling between nodes");
    double gbps = ceiling.gbps();
    // All ranks of one JVM read the same values.
    boolean counts = !context.group().inProcess() || context.group().rank() == 0;
    long[] mine = counts ? new long[] {used.proxies(), used.others()} : new long[2];
    double proxies = 0;
    double others = 0;
    for (long[] each : context.agreement().numbers(mine)) {
      proxies += each[0] / wall;
      others += each[1] / wall;
    }
    return new NodeLimits(ceiling.name(), gbps, proxies, others);
  }
}
