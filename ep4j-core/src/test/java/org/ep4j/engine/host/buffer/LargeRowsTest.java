package org.ep4j.engine.host.buffer;

import static org.assertj.core.api.Assertions.assertThat;
import static org.ep4j.engine.host.buffer.Tensors.bf16;

import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import org.ep4j.Dispatch;
import org.ep4j.ExpertBuffer;
import org.ep4j.config.BufferConfig;
import org.ep4j.group.ThreadRanks;
import org.ep4j.routing.Routing;
import org.ep4j.tensor.DType;
import org.ep4j.tensor.Tensor;
import org.junit.jupiter.api.Test;

/** Batches so large that rows and sums use non-temporal stores, with several workers. */
class LargeRowsTest {
  private static final int HIDDEN = 7168;
  private static final int TOKENS = 1800;
  private static final long ROW = 2L * HIDDEN;

  @Test
  void largeBatchesArriveAndReturn() {
    BufferConfig config =
        BufferConfig.builder()
            .hidden(HIDDEN)
            .topK(2)
            .experts(2)
            .highThroughput(TOKENS)
            .parallelism(2)
            .build();
    ThreadRanks.run(
        2,
        group -> {
          try (Arena arena = Arena.ofConfined();
              ExpertBuffer buffer = ExpertBuffer.open(group, config)) {
            MemorySegment x = rows(arena, group.rank());
            long[] ids = new long[2 * TOKENS];
            for (int t = 0; t < TOKENS; t++) {
              ids[2 * t + 1] = 1;
            }
            Dispatch d =
                buffer.dispatch(
                    Tensor.of(x, DType.BF16, TOKENS, HIDDEN),
                    Routing.of(Tensor.of(ids, TOKENS, 2)));
            assertThat(d.rows()).isEqualTo(2L * TOKENS);
            for (int r = 0; r < 2; r++) {
              MemorySegment part = d.x().segment().asSlice(ROW * TOKENS * r, TOKENS * ROW);
              assertThat(part.mismatch(rows(arena, r))).as("rows of rank %d", r).isEqualTo(-1);
            }
            MemorySegment sums = buffer.combine(d.x(), d.handle()).x().segment();
            for (int t = 0; t < TOKENS; t++) {
              short twice = bf16(2 * value(group.rank(), t));
              for (int h = 0; h < HIDDEN; h += 511) {
                assertThat(sums.get(ValueLayout.JAVA_SHORT, t * ROW + 2L * h)).isEqualTo(twice);
              }
            }
          }
        });
  }

  private static float value(int rank, int token) {
    return 1 + rank + 2 * (token % 100);
  }

  private static MemorySegment rows(Arena arena, int rank) {
    return Tensors.bf16Rows(arena, TOKENS, HIDDEN, token -> value(rank, token));
  }
}
