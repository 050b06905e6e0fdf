package org.ep4j.bench.wire;

import java.util.List;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import org.ep4j.bench.CommandAgreement;
import org.ep4j.group.Group;

/**
 * The same traffic with iperf3, if both ranks have it: rank 1 runs the server, rank 0 sends in
 * writes of 1 MiB. The first second, in which TCP finds its speed, does not count: the measured
 * wire has found it before, too.
 */
public final class Iperf {
  private static final Tool TOOL = new Tool("iperf3");
  private static final int SECONDS = 2;
  private static final int OMITTED = 1;
  private static final Pattern RECEIVED =
      Pattern.compile("\"sum_received\":\\s*\\{[^}]*\"bits_per_second\":\\s*([0-9.eE+]+)");

  private Iperf() {}

  /**
   * GB/s over several connections; called on both ranks.
   *
   * @return 0 on rank 1, and if iperf3 is missing or fails
   */
  public static double measure(Group group, CommandAgreement agreement, int connections) {
    return TOOL.measure(
        group,
        agreement,
        port -> List.of("-s", "-1", "-p", String.valueOf(port)),
        port ->
            List.of(
                "-c",
                "HOST",
                "-p",
                String.valueOf(port),
                "-P",
                String.valueOf(connections),
                "-t",
                String.valueOf(SECONDS),
                "-O",
                String.valueOf(OMITTED),
                "-l",
                "1M",
                "-J"),
        Iperf::gbps);
  }

  /** GB/s received in a report of iperf3; 0 if the report has none. */
  public static double gbps(String report) {
    Matcher matcher = RECEIVED.matcher(report);
    return matcher.find() ? Double.parseDouble(matcher.group(1)) / 8e9 : 0;
  }
}
