package org.ep4j.bench.wire;

import java.time.Duration;
import java.util.List;
import java.util.stream.Stream;
import org.ep4j.bench.CommandAgreement;
import org.ep4j.group.Group;
import org.ep4j.rdma.verbs.ports.RdmaPort;
import org.ep4j.rdma.verbs.ports.RdmaPorts;
import org.ep4j.rdma.verbs.ports.RdmaSettings;
import org.ep4j.wire.WireConfig;

/**
 * RDMA writes by the programs of perftest, if both ranks have them, over the ports and queue pairs
 * of the lanes of the wire {@code verbs}. A program uses one port, so an ib_write_bw runs for each
 * port at the same time.
 *
 * @param ports ports of the lanes
 * @param queuePairs queue pairs of each port
 * @param gbps GB/s of large writes over all of them; 0 if not measured
 * @param micros median of half round trips of writes of 8 bytes; 0 if not measured
 */
public record Perftest(int ports, int queuePairs, double gbps, double micros) {
  private static final Duration LIMIT = Duration.ofSeconds(40);
  private static final Tool BANDWIDTH = new Tool("ib_write_bw", LIMIT);
  private static final Tool LATENCY = new Tool("ib_write_lat", LIMIT);
  private static final int SECONDS = 4;
  private static final int ROUND_TRIPS = 500;
  private static final double MIB = 1 << 20;

  private static final int MEBIBYTES_COLUMN = 3;
  private static final int MEDIAN_COLUMN = 4;

  /**
   * Runs both programs; called on both ranks; the results are on rank 0.
   *
   * @param bytes of a large write
   * @param lanes lanes of the wire
   */
  public static Perftest measure(Group group, CommandAgreement agreement, long bytes, int lanes) {
    RdmaSettings settings = RdmaSettings.of(System.getenv());
    // As in the measured wire: host memory without affinity to a device.
    List<RdmaPort> all = RdmaPorts.of(group, "", WireConfig.builder().build().timeout()).ports();
    List<RdmaPort> used = all.subList(0, Math.min(lanes, all.size()));
    int pairs = Math.min(settings.queuePairsPerPort(), Math.ceilDiv(lanes, used.size()));
    List<String> large =
        List.of("-D", String.valueOf(SECONDS), "-q", String.valueOf(pairs), "-s", "" + bytes);
    double bandwidth =
        BANDWIDTH.sum(
            group,
            agreement,
            used.size(),
            (copy, port) -> server(settings, used.get(copy), port, large),
            (copy, port) -> client(settings, used.get(copy), port, large),
            report -> column(report, MEBIBYTES_COLUMN));
    List<String> small = List.of("-n", String.valueOf(ROUND_TRIPS), "-s", "8");
    double latency =
        LATENCY.measure(
            group,
            agreement,
            port -> server(settings, used.getFirst(), port, small),
            port -> client(settings, used.getFirst(), port, small),
            report -> column(report, MEDIAN_COLUMN));
    return new Perftest(used.size(), pairs, bandwidth * MIB / 1e9, latency);
  }

  private static List<String> server(
      RdmaSettings settings, RdmaPort rdmaPort, int port, List<String> test) {
    int gid = settings.gidIndex() >= 0 ? settings.gidIndex() : rdmaPort.usualAddress();
    List<String> common =
        List.of(
            "-F",
            "-d",
            rdmaPort.device(),
            "-i",
            String.valueOf(rdmaPort.number()),
            "-x",
            String.valueOf(gid),
            "-p",
            String.valueOf(port));
    return Stream.concat(common.stream(), test.stream()).toList();
  }

  private static List<String> client(
      RdmaSettings settings, RdmaPort rdmaPort, int port, List<String> test) {
    return Stream.concat(server(settings, rdmaPort, port, test).stream(), Stream.of("HOST"))
        .toList();
  }

  /** A column of the row of numbers in the report; 0 if it is missing. */
  public static double column(String report, int column) {
    return report
        .lines()
        .map(String::strip)
        .filter(line -> line.matches("[0-9]+\\s+[0-9]+(\\s+[0-9.]+){3,}"))
        .mapToDouble(line -> Double.parseDouble(line.split("\\s+")[column]))
        .max()
        .orElse(0);
  }
}
