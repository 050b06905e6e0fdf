package org.ep4j.cli.bench;

import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import org.ep4j.bench.NodeChoice;
import org.ep4j.bench.NodeTraffic;
import org.ep4j.bench.Timings;
import org.ep4j.cli.text.Style;
import org.ep4j.cli.text.Table;
import org.ep4j.cli.text.Units;
import org.ep4j.cli.text.Wrapped;
import org.ep4j.error.ConfigurationMismatchException;
import org.ep4j.error.EngineUnavailableException;
import org.ep4j.nccl.NcclExchange;

/**
 * Times grouped sends and receives of NCCL for the bytes that operations move between nodes, on the
 * same GPUs: every rank with its partner in each other node, all at once. Each call is timed as
 * those of ep4j are, between two events around it.
 */
final class NcclBaseline {
  private static final Duration TIMEOUT = Duration.ofSeconds(60);
  private static final int UNTIMED = 3;
  private static final int TIMED = 12;

  private final DeviceWork work;
  private final NodeChoice nodes;
  private final List<Integer> targets = new ArrayList<>();
  private final List<Integer> sources = new ArrayList<>();

  NcclBaseline(DeviceWork work) {
    this.work = work;
    nodes = work.settings.nodes();
    int ranks = work.context.group().size();
    int rank = work.context.group().rank();
    int own = nodes.of(rank);
    for (int node = 0; node < nodes.count(ranks); node++) {
      if (node != own) {
        targets.add(nodes.rail(rank, node, ranks));
      }
    }
    for (int other = 0; other < ranks; other++) {
      if (nodes.of(other) != own && nodes.rail(other, own, ranks) == rank) {
        sources.add(other);
      }
    }
  }

  /**
   * Measures the bytes of each result and adds the times to the trees; collective.
   *
   * @return the text to print
   */
  String measure(List<DeviceResult> results, List<Map<String, Object>> trees) {
    Style style = work.context.style();
    long max = 0;
    for (DeviceResult result : results) {
      max = Math.max(max, each(result));
    }
    work.context.at("measuring NCCL's sends and receives");
    try (NcclExchange exchange =
        NcclExchange.open(work.context.group(), work.device, targets, sources, max, TIMEOUT)) {
      Table table = new Table("NCCL " + exchange.version(), "median", "min", "GB/s", "ours");
      for (int i = 0; i < results.size(); i++) {
        DeviceResult result = results.get(i);
        Timings timings = time(exchange, each(result));
        double micros = timings.median();
        double ours = result.result().timings().median();
        table.row(
            "the bytes of " + result.result().operation(),
            Units.micros(micros),
            Units.micros(timings.min()),
            Units.significant(each(result) * targets.size() / micros / 1e3),
            "%s (%.0f %% of NCCL's speed)".formatted(Units.micros(ours), 100 * micros / ours));
        trees.get(i).put("nccl_exchange_us", timings.micros());
      }
      return table.render(style)
          + Wrapped.faint(
              style,
              "grouped ncclSend and ncclRecv of the same bytes with each partner, over the"
                  + " transport that NCCL selects; NCCL_P2P_DISABLE=1 NCCL_SHM_DISABLE=1 restrict"
                  + " it to its network on one host");
    } catch (EngineUnavailableException | ConfigurationMismatchException e) {
      // All ranks throw the same error: they have agreed on it.
      return style.bad("NCCL is not measured: " + e.getMessage()) + "\n";
    }
  }

  /** Bytes to each partner, equal on all ranks. */
  private long each(DeviceResult result) {
    NodeTraffic traffic = result.nodes();
    double bytes = traffic == null ? 0 : traffic.scaleOut();
    return Math.max(1, Math.round(bytes / Math.max(1, targets.size())));
  }

  private Timings time(NcclExchange exchange, long bytes) {
    try (CallTimer timer = new CallTimer(work)) {
      timer.expect(TIMED);
      for (int i = -UNTIMED; i < TIMED; i++) {
        work.settle();
        // An untimed call fills an entry that a timed one overwrites.
        timer.time(Math.max(0, i), () -> exchange.enqueue(bytes, work.stream));
      }
      return Timings.longestOf(work.context.agreement().numbers(timer.deviceNanos()));
    }
  }
}
