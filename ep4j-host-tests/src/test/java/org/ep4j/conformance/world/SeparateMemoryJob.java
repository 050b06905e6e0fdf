package org.ep4j.conformance.world;

import java.time.Duration;
import java.util.List;
import org.ep4j.Dispatch;
import org.ep4j.ExpertBuffer;
import org.ep4j.config.BufferConfig;
import org.ep4j.group.Group;
import org.ep4j.routing.Routing;
import org.ep4j.tensor.Tensor;
import org.ep4j.wire.Wire;
import org.ep4j.wire.WireConfig;
import org.ep4j.wire.Wires;

/** Opens a wire and a buffer, dispatches a row to each rank, and prints what it got. */
public final class SeparateMemoryJob implements RankJob {
  private static final Duration TIMEOUT = Duration.ofSeconds(60);
  private static final int HIDDEN = 128;

  /** Made by the process of a rank. */
  public SeparateMemoryJob() {}

  @Override
  public void run(Group group, List<String> arguments) {
    try (Wire wire = Wires.open(group, WireConfig.builder().timeout(TIMEOUT).build())) {
      System.out.println("the wire is " + wire.name());
      group.barrier(TIMEOUT);
    }
    int ranks = group.size();
    BufferConfig config =
        BufferConfig.builder()
            .engine("host")
            .hidden(HIDDEN)
            .topK(ranks)
            .experts(ranks)
            .highThroughput(1)
            .timeout(TIMEOUT)
            .build();
    long[] experts = new long[ranks];
    float[] weights = new float[ranks];
    for (int e = 0; e < ranks; e++) {
      experts[e] = e;
    }
    try (ExpertBuffer buffer = ExpertBuffer.open(group, config)) {
      Dispatch received =
          buffer.dispatch(
              Tensor.ofBf16(new short[HIDDEN], 1, HIDDEN), Routing.of(experts, weights, ranks));
      System.out.println("rows received: " + received.receivedRows());
      group.barrier(TIMEOUT);
    }
    System.out.println("done");
  }
}
