package org.ep4j.cli.bench;

import java.util.Map;
import org.ep4j.cli.text.Units;

/**
 * One measured low-latency operation on GPUs; the same on every rank.
 *
 * @param result its period in a chain, or the duration of a half
 * @param how {@code calls}, {@code graph}, or {@code alone}
 * @param tokens a rank
 * @param sms SMs asked for, 0 = the engine's choice
 * @param host what the caller spent on it
 */
record LatencyResult(Result result, String how, int tokens, int sms, Timings host) {
  /** Columns of the table. */
  static final String[] COLUMNS = {
    "operation", "as", "tokens", "median", "p99", "p99.9", "min", "host", "remote GB/s"
  };

  /** The line of the table. */
  String[] cells() {
    Timings timings = result.timings();
    return new String[] {
      result.operation() + " " + result.payload(),
      how,
      String.valueOf(tokens),
      Units.micros(timings.median()),
      Units.micros(timings.p99()),
      Units.micros(timings.p999()),
      Units.micros(timings.min()),
      host.max() > 0 ? Units.micros(host.median()) : "",
      Units.significant(result.remoteGbps())
    };
  }

  /** For the artifact. */
  Map<String, Object> tree() {
    Map<String, Object> tree = result.tree();
    tree.put("as", how);
    tree.put("tokens", tokens);
    tree.put("sms", sms);
    tree.put("host_median_us", host.median());
    return tree;
  }
}
