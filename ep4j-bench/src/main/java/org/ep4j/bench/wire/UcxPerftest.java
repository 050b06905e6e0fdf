package org.ep4j.bench.wire;

import java.util.Arrays;
import java.util.List;
import org.ep4j.bench.CommandAgreement;
import org.ep4j.group.Group;

/**
 * Puts by ucx_perftest, if both ranks have it: the speed of the library below the wire without
 * counters at the receiver. The program reads the same {@code UCX_} variables. It has one
 * connection, so as many of them run at the same time as the wire has connections.
 *
 * @param gbps GB/s of streams of large puts, of one program or of all, whichever is faster; 0 if
 *     not measured
 * @param micros median of half round trips of puts of 8 bytes; 0 if not measured
 */
public record UcxPerftest(double gbps, double micros) {
  private static final Tool TOOL = new Tool("ucx_perftest");
  private static final double MIB = 1 << 20;

  /** Runs both tests; called on both ranks; the results are on rank 0. */
  public static UcxPerftest measure(
      Group group, CommandAgreement agreement, long large, int connections) {
    double bandwidth = run(group, agreement, 1, "ucp_put_bw", large, 2_000, "overall_bw");
    if (connections > 1) {
      double all = run(group, agreement, connections, "ucp_put_bw", large, 2_000, "overall_bw");
      bandwidth = Math.max(bandwidth, all);
    }
    double latency = run(group, agreement, 1, "ucp_put_lat", 8, 20_000, "50.0_percentile_lat");
    return new UcxPerftest(bandwidth * MIB / 1e9, latency);
  }

  private static double run(
      Group group,
      CommandAgreement agreement,
      int programs,
      String test,
      long bytes,
      int puts,
      String column) {
    return TOOL.sum(
        group,
        agreement,
        programs,
        (program, port) -> List.of("-p", String.valueOf(port)),
        (program, port) ->
            List.of(
                "HOST",
                "-p",
                String.valueOf(port),
                "-t",
                test,
                "-s",
                String.valueOf(bytes),
                "-n",
                String.valueOf(puts),
                "-f",
                "-v"),
        report -> value(report, column));
  }

  /** A column of the table at the end of the report; 0 if it is missing. */
  public static double value(String report, String column) {
    List<String> lines = report.lines().filter(line -> line.indexOf(',') > 0).toList();
    for (int i = 0; i + 1 < lines.size(); i++) {
      int place = Arrays.asList(lines.get(i).split(",")).indexOf(column);
      String[] values = lines.get(i + 1).split(",");
      if (place >= 0 && place < values.length) {
        try {
          return Double.parseDouble(values[place].strip());
        } catch (NumberFormatException e) {
          return 0;
        }
      }
    }
    return 0;
  }
}
