package org.ep4j.cli.bench;

import java.time.Duration;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.ep4j.bench.CommandAgreement;
import org.ep4j.bench.Timings;
import org.ep4j.bench.VerificationFailure;
import org.ep4j.bench.wire.Iperf;
import org.ep4j.bench.wire.Perftest;
import org.ep4j.bench.wire.UcxPerftest;
import org.ep4j.bench.wire.WireBench;
import org.ep4j.bench.wire.WireSpeed;
import org.ep4j.cli.ExitCodes;
import org.ep4j.cli.text.OutputFile;
import org.ep4j.cli.text.Progress;
import org.ep4j.cli.text.Style;
import org.ep4j.cli.text.Table;
import org.ep4j.cli.text.Units;
import org.ep4j.config.WireName;
import org.ep4j.group.Group;
import org.ep4j.wire.WireConfig;
import org.jspecify.annotations.Nullable;

/**
 * A bench of wires on one rank. Rank 0 prints.
 *
 * @param wires kinds of wire
 * @param lanes numbers of lanes, one after the other
 * @param connections connections to the peer; 0 for one per lane
 * @param encrypted as {@link WireConfig#encrypted()}
 * @param sizes sizes of a put in bytes, one after the other
 * @param stream duration of each stream
 * @param artifact JSON file with the results; null for none
 */
record WireSession(
    List<String> wires,
    List<Integer> lanes,
    int connections,
    boolean encrypted,
    List<Long> sizes,
    Duration stream,
    @Nullable OutputFile artifact) {
  private static final Duration WARM_UP = Duration.ofMillis(300);
  private static final long COMPARED = 1 << 20;

  /** Runs the bench; returns the exit code, equal on both ranks. */
  int run(Group group, Progress progress) {
    CommandAgreement agreement = new CommandAgreement(group);
    List<WireSpeed> speeds = new ArrayList<>();
    Map<String, Object> others = new LinkedHashMap<>();
    Style style = Style.detect();
    try {
      for (String wire : wires) {
        for (int count : lanes) {
          progress.at("wire " + wire + " with " + count + " lanes");
          List<WireSpeed> found = measure(group, agreement, wire, count);
          speeds.addAll(found);
          String comparison = compare(group, agreement, found, others);
          if (group.rank() == 0) {
            String text = text(style, found, comparison);
            progress.above(() -> Artifact.tables(artifact).print(text));
          }
        }
      }
    } catch (VerificationFailure e) {
      if (group.rank() == 0) {
        String text = style.bad("WRONG BYTES: " + e.getMessage()) + "\n";
        progress.above(() -> Artifact.tables(artifact).print(text));
      }
      return ExitCodes.FAILED;
    }
    if (group.rank() == 0 && artifact != null) {
      Map<String, Object> tree = Artifact.head();
      tree.put("results", speeds.stream().map(WireSpeed::tree).toList());
      tree.put("others", others);
      Artifact.write(artifact, tree);
    }
    return ExitCodes.OK;
  }

  private List<WireSpeed> measure(Group group, CommandAgreement agreement, String wire, int count) {
    WireConfig config =
        WireConfig.builder()
            .wire(wire)
            .lanes(count)
            .connections(connections == 0 ? count : connections)
            .encrypted(encrypted)
            .build();
    long largest = sizes.stream().max(Long::compare).orElseThrow();
    List<WireSpeed> found = new ArrayList<>();
    try (WireBench bench = new WireBench(group, agreement, config, largest)) {
      bench.measure(Math.min(64, largest), WARM_UP);
      bench.measure(Math.min(COMPARED, largest), WARM_UP);
      for (long bytes : sizes) {
        found.add(bench.measure(bytes, stream));
      }
    }
    return found;
  }

  private static String text(Style style, List<WireSpeed> found, String comparison) {
    WireSpeed first = found.getFirst();
    Table table = new Table("size", "latency", "p99", "puts/s", "GB/s");
    for (WireSpeed speed : found) {
      table.row(
          Units.bytes(speed.bytes()),
          Units.micros(speed.latency()),
          Units.micros(new Timings(speed.latencyMicros()).p99()),
          rate(speed.millionsPerSecond()),
          Units.significant(speed.gbps()));
    }
    StringBuilder text = new StringBuilder();
    text.append(style.bold("Wire " + first.wire()))
        .append("  %d lane%s".formatted(first.lanes(), first.lanes() == 1 ? "" : "s"));
    if (first.connections() > 0) {
      text.append(
          ", %d connection%s".formatted(first.connections(), first.connections() == 1 ? "" : "s"));
    }
    text.append("\n").append(table.render(style));
    text.append(comparison);
    return text.append(style.good("verified: every byte of each size")).append("\n\n").toString();
  }

  private static String rate(double millions) {
    return millions >= 1
        ? Units.significant(millions) + " M"
        : Units.significant(millions * 1e3) + " k";
  }

  /**
   * Runs the tool of the fabric over the same network; returns its result as text, and adds it to
   * JSON.
   */
  private static String compare(
      Group group, CommandAgreement agreement, List<WireSpeed> found, Map<String, Object> others) {
    WireSpeed first = found.getFirst();
    return switch (first.wire()) {
      case WireName.TCP -> {
        double gbps = Iperf.measure(group, agreement, first.connections());
        others.put("iperf3_%d_connections_gbps".formatted(first.connections()), gbps);
        String program = "iperf3 -P %d -l 1M".formatted(first.connections());
        yield gbps == 0 ? missing("iperf3") : reached(program, gbps, found) + "\n";
      }
      case WireName.UCX -> {
        UcxPerftest other = UcxPerftest.measure(group, agreement, COMPARED, first.connections());
        others.put("ucx_perftest_put_gbps", other.gbps());
        others.put("ucx_perftest_put_latency_us", other.micros());
        yield other.gbps() == 0
            ? missing("ucx_perftest")
            : reached("ucx_perftest -t ucp_put_bw", other.gbps(), found)
                + latencies("ucx_perftest -t ucp_put_lat", other.micros(), found)
                + "\n";
      }
      case WireName.VERBS -> {
        Perftest other = Perftest.measure(group, agreement, COMPARED, first.lanes());
        others.put(
            "ib_write_bw_%d_ports_%d_queue_pairs_gbps".formatted(other.ports(), other.queuePairs()),
            other.gbps());
        others.put("ib_write_lat_us", other.micros());
        String program =
            "ib_write_bw -s %d -q %d on %d port%s"
                .formatted(
                    COMPARED, other.queuePairs(), other.ports(), other.ports() == 1 ? "" : "s");
        yield other.gbps() == 0
            ? missing("ib_write_bw")
            : reached(program, other.gbps(), found)
                + latencies("ib_write_lat", other.micros(), found)
                + "\n";
      }
      default -> "";
    };
  }

  private static String missing(String tool) {
    return tool + " is not installed on both hosts, or failed: no comparison\n";
  }

  private static String reached(String program, double gbps, List<WireSpeed> found) {
    String text = "%s: %s GB/s".formatted(program, Units.significant(gbps));
    for (WireSpeed speed : found) {
      if (speed.bytes() == COMPARED) {
        text += "; puts of 1 MiB reach %.0f %% of it".formatted(100 * speed.gbps() / gbps);
      }
    }
    return text;
  }

  private static String latencies(String program, double micros, List<WireSpeed> found) {
    if (micros == 0) {
      return "";
    }
    String text = "\n%s: %s".formatted(program, Units.micros(micros));
    for (WireSpeed speed : found) {
      if (speed.bytes() == 8) {
        text += "; puts of 8 B take %.2f times as long".formatted(speed.latency() / micros);
      }
    }
    return text;
  }
}
