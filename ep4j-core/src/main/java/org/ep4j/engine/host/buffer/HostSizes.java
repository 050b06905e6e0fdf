package org.ep4j.engine.host.buffer;

import java.util.ArrayList;
import java.util.List;
import java.util.Objects;
import org.ep4j.BufferSizes;
import org.ep4j.BufferSizes.Part;
import org.ep4j.BufferSizes.Use;
import org.ep4j.config.BufferConfig;
import org.ep4j.engine.Limits;
import org.ep4j.engine.host.combine.CombineChunk;
import org.ep4j.engine.host.dispatch.DispatchChunk;
import org.ep4j.engine.host.layout.InternodeLowLatencyLayout;
import org.ep4j.engine.host.layout.LowLatencyMemoryLayout;
import org.ep4j.engine.host.layout.RegionLayout;
import org.ep4j.engine.host.layout.ScaleOutLayout;
import org.ep4j.engine.world.Nodes;
import org.ep4j.engine.world.Rails;
import org.ep4j.routing.ExpertPlacement;

/**
 * The memory of a buffer on a rank, part by part: the arithmetic of {@link HostMemory} and of the
 * connection between nodes.
 */
final class HostSizes {
  private final BufferConfig config;
  private final Nodes nodes;
  private final int rank;
  private final RegionLayout layout;
  private final ExpertPlacement placement;
  private final List<Part> parts = new ArrayList<>();

  private HostSizes(BufferConfig config, Nodes nodes, int rank) {
    this.config = config;
    this.nodes = nodes;
    this.rank = rank;
    layout = new RegionLayout(config);
    placement = Objects.requireNonNull(config.placement(), "settled placement");
  }

  /** The memory of one rank. */
  static BufferSizes of(BufferConfig config, int rank) {
    return new HostSizes(config, Nodes.of(config), rank).all();
  }

  /** Chunks of rows between nodes: each holds at least one token. */
  static ScaleOutLayout chunks(BufferConfig config, RegionLayout layout, int ranks) {
    int topK = config.topK();
    long token =
        Math.max(
            DispatchChunk.max(layout.highThroughput, topK),
            CombineChunk.max(config.hidden(), topK));
    return new ScaleOutLayout(ranks, token, Limits.tokens(config) * token);
  }

  private BufferSizes all() {
    add("words of operations", Use.PEERS, layout.highThroughputOffset);
    add(
        "rows of high throughput",
        Use.PEERS,
        layout.lowLatencyOffset - layout.highThroughputOffset);
    add("rows of low latency", Use.PEERS, layout.bytes - layout.lowLatencyOffset);
    // Memory that nothing needs is a byte.
    add("copies and sums of high throughput", Use.PRIVATE, Math.max(1, layout.scratch.bytes));
    add(
        "results of low latency",
        Use.PRIVATE,
        LowLatencyMemoryLayout.of(config, nodes.ranks(), placement.localExperts(rank)).bytes);
    if (nodes.count() > 1) {
      internode();
    }
    return new BufferSizes(parts, layout.lowLatency.communicationBytes);
  }

  private void internode() {
    int ranks = nodes.ranks();
    ScaleOutLayout chunks = chunks(config, layout, ranks);
    long rings = chunks.rings(new Rails(nodes, new boolean[ranks]).partners(rank).length);
    add("between nodes: words of their ranks", Use.PEERS, ranks * layout.headBytes());
    add("between nodes: arriving rows", Use.PEERS, rings);
    add("between nodes: leaving rows", Use.PRIVATE, rings);
    if (config.lowLatency().isPresent()) {
      InternodeLowLatencyLayout latency =
          new InternodeLowLatencyLayout(
              config, layout.lowLatency, placement.localExperts(rank), chunks.firstInternode());
      add(
          "between nodes: arriving rows of low latency",
          Use.PEERS,
          latency.areaBytes + 2 * latency.answerBytes);
      add(
          "between nodes: leaving rows of low latency",
          Use.PRIVATE,
          latency.areaBytes + 2 * latency.waiting(0, ranks, 1));
    }
  }

  private void add(String name, Use use, long bytes) {
    if (bytes > 0) {
      parts.add(new Part(name, use, false, bytes));
    }
  }
}
