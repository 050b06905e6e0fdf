package org.ep4j.cli.bench;

import java.util.Map;
import org.ep4j.cli.text.Units;

/**
 * One measured operation on GPUs; the same on every rank.
 *
 * @param result what it took by the events around the calls
 * @param kernel what its kernels took, behind one another with nothing of the host between
 * @param host what the callers themselves spent in the calls
 * @param sms SMs of an operation
 */
record DeviceResult(Result result, Timings kernel, Timings host, int sms) {
  /** Columns of the table. */
  static final String[] COLUMNS = {
    "operation",
    "SMs",
    "median",
    "p99",
    "min",
    "kernel",
    "host",
    "logical GB/s",
    "remote GB/s",
    "ceiling",
    "% of it"
  };

  /** The line of the table. */
  String[] cells() {
    Timings timings = result.timings();
    boolean ceiling = !Double.isNaN(result.ceilingMicros());
    return new String[] {
      result.operation() + " " + result.payload(),
      String.valueOf(sms),
      Units.micros(timings.median()),
      Units.micros(timings.p99()),
      Units.micros(timings.min()),
      Units.micros(kernel.median()),
      Units.micros(host.median()),
      Units.significant(result.logicalGbps()),
      Units.significant(result.remoteGbps()),
      ceiling ? Units.micros(result.ceilingMicros()) : "",
      ceiling ? Units.fixed(result.ceilingPercent(), 0) : ""
    };
  }

  /** For the artifact. */
  Map<String, Object> tree() {
    Map<String, Object> tree = result.tree();
    tree.put("sms", sms);
    tree.put("kernel_median_us", kernel.median());
    tree.put("kernel_p99_us", kernel.p99());
    tree.put("kernel_us", kernel.micros());
    tree.put("host_median_us", host.median());
    tree.put("host_p99_us", host.p99());
    tree.put("host_us", host.micros());
    return tree;
  }
}
