package org.ep4j.bench;

import java.util.Map;

/**
 * Limits of an exchange between GPUs of several nodes, and its CPU use.
 *
 * @param ceiling name of the measured maximum of sending and receiving at the same time
 * @param ceilingGbps this maximum in GB/s in each direction; NaN if nothing was measured
 * @param proxyCores busy cores of the proxy threads of all ranks during checks and timing
 * @param otherCores busy cores of all other threads of these processes
 */
public record NodeLimits(String ceiling, double ceilingGbps, double proxyCores, double otherCores) {
  public boolean isMeasured() {
    return !Double.isNaN(ceilingGbps);
  }

  /** Microseconds at the ceiling for bytes in each direction; NaN if nothing was measured. */
  public double micros(double bytes) {
    return bytes / ceilingGbps / 1e3;
  }

  /** The CPU use as text. */
  public String cores() {
    return "CPU during checks and timing: %.1f cores in the proxies of all ranks, %.1f in other threads%n"
        .formatted(proxyCores, otherCores);
  }

  public double percent(double gbps) {
    return 100 * gbps / ceilingGbps;
  }

  public void addTo(Map<String, Object> tree, double gbps) {
    tree.put("ceiling", ceiling);
    if (isMeasured()) {
      tree.put("ceiling_gbps_each_way", ceilingGbps);
      tree.put("percent_of_ceiling", percent(gbps));
    }
    tree.put("proxy_cores", proxyCores);
    tree.put("other_cores", otherCores);
  }
}
