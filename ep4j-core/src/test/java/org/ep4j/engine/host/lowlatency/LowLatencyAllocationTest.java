package org.ep4j.engine.host.lowlatency;

import static org.assertj.core.api.Assertions.assertThat;

import java.util.List;
import org.ep4j.engine.host.kernel.AllocatingCalls;
import org.junit.jupiter.api.Test;

/** Once warm, low latency allocates nothing. */
class LowLatencyAllocationTest {
  @Test
  void warmOperationsAllocateNothing() throws Exception {
    assertThat(
            AllocatingCalls.inEachJvm(
                LowLatencyAllocations.class, List.of(), List.of(), LowLatencyAllocations.RANKS))
        .isEmpty();
  }
}
