package org.ep4j.engine.host.internode;

import static org.assertj.core.api.Assertions.assertThat;

import java.time.Duration;
import java.util.concurrent.atomic.AtomicBoolean;
import org.ep4j.config.BufferConfig;
import org.ep4j.config.WireName;
import org.ep4j.config.WireOptions;
import org.ep4j.engine.host.layout.ScaleOutLayout;
import org.ep4j.engine.world.Nodes;
import org.ep4j.group.ThreadRanks;
import org.ep4j.routing.ExpertPlacement;
import org.ep4j.wire.Lane;
import org.ep4j.wire.Wire;
import org.ep4j.wire.WireConfig;
import org.ep4j.wire.Wires;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

@Timeout(60)
class RowLanesTest {
  private static final Duration TIMEOUT = Duration.ofSeconds(30);
  private static final int PEER = 1;

  private final ScaleOutLayout layout = new ScaleOutLayout(2, 1, 1);
  private final AtomicBoolean sent = new AtomicBoolean();

  /** Rows of the later operation could land first on another lane, in the same memory. */
  @Test
  void anOperationKeepsTheLaneUntilTheLastOneOfItsParityHasTakenEffect() {
    WireConfig config =
        WireConfig.builder()
            .wire(WireName.TCP)
            .options(WireOptions.builder().lanes(3).build())
            .counters(layout.counters())
            .timeout(TIMEOUT)
            .build();
    ThreadRanks.run(
        2,
        group -> {
          try (Wire wire = Wires.open(group, config)) {
            if (group.rank() == 0) {
              try {
                send(wire);
              } finally {
                sent.set(true);
              }
            } else {
              while (!sent.get()) {
                wire.poll(0);
                Thread.yield();
              }
            }
            group.barrier(TIMEOUT);
          }
        });
  }

  private void send(Wire wire) {
    BufferConfig config =
        BufferConfig.builder()
            .hidden(128)
            .topK(1)
            .experts(2)
            .highThroughput(1)
            .ranksPerNode(1)
            .placement(ExpertPlacement.blocks(2, 2))
            .build();
    InternodeLanes lanes =
        new InternodeLanes(wire, layout, Nodes.of(config), new int[] {0, PEER}, 0, TIMEOUT);
    RowLanes rows = new RowLanes(lanes, 2);
    int first = rows.of(PEER, 2);
    lanes.add(PEER, first, layout.progress(0), 1);
    rows.sent(PEER, 2);
    // This rank has not polled since, so it knows of no delivery.
    assertThat(rows.of(PEER, 4)).isEqualTo(first);
    rows.sent(PEER, 4);
    Lane lane = lanes.get(PEER, first);
    while (lane.delivered() < lane.accepted()) {
      wire.poll(0);
      Thread.yield();
    }
    assertThat(rows.of(PEER, 6)).isNotEqualTo(first);
  }
}
