package org.ep4j.cli.bench;

import java.util.Map;

/**
 * What bounds an exchange between GPUs of several nodes, and what it takes of the processors.
 *
 * @param ceiling what was measured as the most that a rank can send and get at the same time
 * @param ceilingGbps that, in 10^9 bytes a second and direction; not a number if nothing was
 *     measured
 * @param proxyCores cores that the threads of all ranks' proxies kept busy while operations were
 *     checked and timed
 * @param otherCores the same for the rest of their processes
 */
record NodeLimits(String ceiling, double ceilingGbps, double proxyCores, double otherCores) {
  boolean isMeasured() {
    return !Double.isNaN(ceilingGbps);
  }

  /** What the ceiling takes for so many bytes each way; not a number if nothing was measured. */
  double micros(double bytes) {
    return bytes / ceilingGbps / 1e3;
  }

  /** For people. */
  String cores() {
    return "CPU while this was checked and timed: %.1f cores in proxies of all ranks, %.1f beside them%n"
        .formatted(proxyCores, otherCores);
  }

  double percent(double gbps) {
    return 100 * gbps / ceilingGbps;
  }

  void addTo(Map<String, Object> tree, double gbps) {
    tree.put("ceiling", ceiling);
    if (isMeasured()) {
      tree.put("ceiling_gbps_each_way", ceilingGbps);
      tree.put("percent_of_ceiling", percent(gbps));
    }
    tree.put("proxy_cores", proxyCores);
    tree.put("other_cores", otherCores);
  }
}
