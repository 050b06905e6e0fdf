package org.ep4j.engine.host.internode;

import static org.assertj.core.api.Assertions.assertThatThrownBy;

import java.lang.foreign.Arena;
import java.lang.reflect.InvocationHandler;
import java.lang.reflect.Proxy;
import java.time.Duration;
import java.util.concurrent.atomic.AtomicInteger;
import org.ep4j.config.BufferConfig;
import org.ep4j.engine.host.layout.ScaleOutLayout;
import org.ep4j.engine.world.Nodes;
import org.ep4j.error.PeerTimeoutException;
import org.ep4j.routing.ExpertPlacement;
import org.ep4j.wire.Counters;
import org.ep4j.wire.Lane;
import org.ep4j.wire.Wire;
import org.ep4j.wire.WireConfig;
import org.junit.jupiter.api.Test;

class InternodeLanesTest {
  private static final int PEER = 1;

  private final ScaleOutLayout layout = new ScaleOutLayout(2, 1, 1);
  private final AtomicInteger polls = new AtomicInteger();

  @Test
  void aWaitForSpaceEndsAtItsDeadlineWhileOtherWorkMoves() {
    BufferConfig config =
        BufferConfig.builder()
            .hidden(128)
            .topK(1)
            .experts(2)
            .highThroughput(1)
            .ranksPerNode(1)
            .placement(ExpertPlacement.blocks(2, 2))
            .build();
    try (Arena arena = Arena.ofConfined()) {
      Wire wire = busy(Counters.allocate(arena, layout.counters()));
      int[] ranks = {0, PEER};
      InternodeLanes lanes =
          new InternodeLanes(wire, layout, Nodes.of(config), ranks, 0, Duration.ofNanos(1));
      assertThatThrownBy(() -> lanes.add(PEER, 0, layout.progress(0), 1))
          .isInstanceOf(PeerTimeoutException.class);
    }
  }

  /** A wire whose lanes have no space, and on which other work moves until the peer aborts. */
  private Wire busy(Counters counters) {
    WireConfig config = WireConfig.builder().lanes(1).build();
    Lane full =
        fake(
            Lane.class,
            (lane, method, arguments) ->
                switch (method.getName()) {
                  case "add" -> Lane.BACK_PRESSURED;
                  case "failure" -> null;
                  default -> 0L;
                });
    return fake(
        Wire.class,
        (wire, method, arguments) ->
            switch (method.getName()) {
              case "config" -> config;
              case "counters" -> counters;
              case "lane" -> full;
              case "name" -> "busy";
              default -> {
                if (polls.incrementAndGet() == 100_000) {
                  counters.add(layout.aborted(PEER), 1);
                }
                yield 1;
              }
            });
  }

  private static <T> T fake(Class<T> type, InvocationHandler handler) {
    return type.cast(Proxy.newProxyInstance(type.getClassLoader(), new Class<?>[] {type}, handler));
  }
}
