package org.ep4j.verify.worlds;

import static org.assertj.core.api.Assertions.assertThat;

import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import org.ep4j.ExpertBuffer;
import org.ep4j.LowLatencyDispatch;
import org.ep4j.LowLatencyDispatchOptions;
import org.ep4j.config.BufferConfig;
import org.ep4j.group.ThreadRanks;
import org.ep4j.routing.Routing;
import org.ep4j.tensor.DType;
import org.ep4j.tensor.RowFormat;
import org.ep4j.tensor.ScaleKind;
import org.ep4j.tensor.ScaleLayout;
import org.ep4j.tensor.Tensor;
import org.ep4j.verify.Inputs;
import org.ep4j.verify.Inputs.Part;
import org.ep4j.verify.RoutingGenerator;
import org.ep4j.verify.RoutingKind;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

/** Scales by columns are the transposed scales by rows. */
class LowLatencyScaleColumnsTest {
  private static final int RANKS = 2;
  private static final int TOKENS = 5;
  private static final int HIDDEN = 1024;
  private static final int EXPERTS = 6;

  @ParameterizedTest
  @CsvSource({
    "FP8, FLOAT32, FP32, 8, 12",
    "FP8, FLOAT32_POW2, FP32, 8, 12",
    // Four per word, as in the rows: 1024 / 512 words.
    "FP8, UE8M0, INT32, 2, 12",
    "NVFP4, FLOAT32, FP8_E4M3, 64, 16",
  })
  void areTransposedRows(RowFormat format, ScaleKind kind, DType dtype, int columns, int length) {
    ThreadRanks.run(
        RANKS,
        group -> {
          BufferConfig config =
              BufferConfig.builder()
                  .hidden(HIDDEN)
                  .topK(3)
                  .experts(EXPERTS)
                  .lowLatency(TOKENS)
                  .build();
          try (ExpertBuffer buffer = ExpertBuffer.open(group, config);
              Arena arena = Arena.ofShared()) {
            Routing routing =
                new RoutingGenerator(RoutingKind.UNIFORM, 7, EXPERTS, 3)
                    .routing(group.rank(), TOKENS, arena);
            Tensor x =
                new Inputs(7).tensor(Part.PAYLOAD, DType.BF16, group.rank(), TOKENS, HIDDEN, arena);
            LowLatencyDispatchOptions.Builder options =
                LowLatencyDispatchOptions.builder().format(format).scaleKind(kind);
            LowLatencyDispatch byRows = buffer.lowLatencyDispatch(x, routing, options.build());
            LowLatencyDispatch byColumns =
                buffer.lowLatencyDispatch(
                    x, routing, options.scaleLayout(ScaleLayout.COLUMN_MAJOR).build());
            Tensor transposed = byColumns.scales();
            assertThat(transposed.dtype()).isEqualTo(dtype);
            assertThat(transposed.shape()).containsExactly(EXPERTS / RANKS, columns, length);
            compare(
                byRows.scales().segment(),
                transposed.segment(),
                byRows.counts(),
                dtype.bytes(1),
                columns,
                length);
          }
        });
  }

  private static void compare(
      MemorySegment rows,
      MemorySegment transposed,
      Tensor counts,
      long bytes,
      int columns,
      int length) {
    long compared = 0;
    for (long expert = 0; expert < counts.size(0); expert++) {
      for (long row = 0; row < counts.getInt(expert); row++) {
        for (long c = 0; c < columns; c++) {
          long from = ((expert * RANKS * TOKENS + row) * columns + c) * bytes;
          long to = ((expert * columns + c) * length + row) * bytes;
          assertThat(transposed.asSlice(to, bytes).mismatch(rows.asSlice(from, bytes)))
              .as("expert %d, row %d, column %d", expert, row, c)
              .isEqualTo(-1);
          compared++;
        }
      }
    }
    assertThat(compared).isPositive();
  }
}
