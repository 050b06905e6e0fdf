package org.ep4j.engine.host.buffer;

import static org.assertj.core.api.Assertions.assertThat;

import java.util.List;
import org.ep4j.engine.host.kernel.AllocatingCalls;
import org.junit.jupiter.api.Test;

/** Once warm, no operation of high throughput allocates. */
class WarmLoopAllocatesNothingTest {
  @Test
  void warmOperationsAllocateNothing() throws Exception {
    assertThat(AllocatingCalls.inEachJvm(WarmLoops.class, List.of(), List.of(), WarmLoops.LINES))
        .isEmpty();
  }
}
