package org.ep4j.wire;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import java.lang.foreign.MemorySegment;
import java.time.Duration;
import org.ep4j.ExpertBuffer;
import org.ep4j.config.BufferConfig;
import org.ep4j.group.ThreadRanks;
import org.ep4j.routing.Routing;
import org.ep4j.tensor.Tensor;
import org.junit.jupiter.api.Test;

class BadEndTest {
  private static final int RANKS = 2;
  private static final int HIDDEN = 16;
  private static final Duration LONG = Duration.ofSeconds(20);

  /** The memory of the buffer is behind the wire in the order of closing. */
  @Test
  void aBufferWhoseWireEndsBadlyStillReleasesItsMemory() {
    BufferConfig config =
        BufferConfig.builder()
            .engine("host")
            .hidden(HIDDEN)
            .experts(RANKS)
            .topK(1)
            .ranksPerNode(1)
            .wire(BadEndWireProvider.NAME)
            .highThroughput(1)
            .timeout(LONG)
            .build();
    ThreadRanks.run(
        RANKS,
        LONG,
        group -> {
          ExpertBuffer buffer = ExpertBuffer.open(group, config);
          var dispatch =
              buffer.dispatch(
                  Tensor.ofBf16(new short[HIDDEN], 1, HIDDEN),
                  Routing.of(new long[] {1 - group.rank()}, new float[] {1}, 1));
          MemorySegment rows = dispatch.x().segment();
          group.barrier(LONG);
          assertThatThrownBy(buffer::close)
              .isInstanceOf(IllegalStateException.class)
              .hasMessage(BadEndWireProvider.ERROR);
          assertThat(rows.scope().isAlive()).as("the memory of the buffer").isFalse();
          buffer.close();
        });
  }
}
