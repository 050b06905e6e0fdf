package org.ep4j.engine.host.buffer;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.util.Arrays;
import java.util.Objects;
import org.ep4j.Dispatch;
import org.ep4j.DispatchHandle;
import org.ep4j.DispatchOptions;
import org.ep4j.ExpertBuffer;
import org.ep4j.Sizing;
import org.ep4j.Tokens;
import org.ep4j.engine.host.dispatch.ScaleTranspose;
import org.ep4j.engine.host.exec.WorkerTeam;
import org.ep4j.error.ErrorCode;
import org.ep4j.error.InvalidArgumentException;
import org.ep4j.group.ThreadRanks;
import org.ep4j.tensor.DType;
import org.ep4j.tensor.ScaleLayout;
import org.ep4j.tensor.Tensor;
import org.junit.jupiter.api.Test;

/**
 * The case of {@link HighThroughputTest} with FP8 rows and three scales per row: the scale of
 * column c is 100 * c + 10 * rank + token + 1.
 */
class ScaleColumnsTest {
  private static final int COLUMNS = 3;

  private static Tokens tokens(int rank, float plus) {
    int count = HighThroughputTest.routing(rank).tokens();
    float[] scales = new float[count * COLUMNS];
    for (int t = 0; t < count; t++) {
      for (int c = 0; c < COLUMNS; c++) {
        scales[t * COLUMNS + c] = 100 * c + 10 * rank + t + 1 + plus;
      }
    }
    Tensor x =
        Tensor.of(
            MemorySegment.ofArray(new byte[count * HighThroughputTest.HIDDEN]),
            DType.FP8_E4M3,
            count,
            HighThroughputTest.HIDDEN);
    return Tokens.of(x, Tensor.of(scales, count, COLUMNS));
  }

  /** The same by columns with room for another token, on the heap or in native memory. */
  private static Tokens byColumns(int rank, float plus, Arena arena) {
    Tokens tokens = tokens(rank, plus);
    int count = tokens.tokens();
    Tensor rows = Objects.requireNonNull(tokens.scales());
    float[] scales = new float[COLUMNS * (count + 1)];
    Arrays.fill(scales, Float.NaN);
    for (int t = 0; t < count; t++) {
      for (int c = 0; c < COLUMNS; c++) {
        scales[c * (count + 1) + t] = rows.getFloat((long) t * COLUMNS + c);
      }
    }
    Tensor columns =
        rank == 0
            ? Tensor.of(scales, COLUMNS, count + 1)
            : Tensor.allocate(arena, DType.FP32, COLUMNS, count + 1);
    columns.copyFrom(scales);
    return Tokens.of(tokens.x(), columns, ScaleLayout.COLUMN_MAJOR);
  }

  @Test
  void scalesGivenByColumnsArriveAsThoseByRows() {
    ThreadRanks.run(
        2,
        group -> {
          int rank = group.rank();
          try (Arena arena = Arena.ofConfined();
              ExpertBuffer buffer = ExpertBuffer.open(group, HighThroughputTest.config().build())) {
            Dispatch d =
                buffer.dispatch(byColumns(rank, 0, arena), HighThroughputTest.routing(rank));
            assertThat(d.scales().shape()).containsExactly(3, COLUMNS);
            float[] first = rank == 0 ? new float[] {1, 2, 11} : new float[] {1, 3, 12};
            assertRows(d, 0, first);
            try (DispatchHandle handle = d.handle()) {
              assertRows(buffer.dispatch(byColumns(rank, 0.5f, arena), handle), 0.5f, first);
            }
          }
        });
  }

  private static void assertRows(Dispatch dispatch, float plus, float[] first) {
    for (int row = 0; row < first.length; row++) {
      for (int c = 0; c < COLUMNS; c++) {
        assertThat(dispatch.scales().getFloat((long) row * COLUMNS + c))
            .as("row %d, column %d", row, c)
            .isEqualTo(100 * c + first[row] + plus);
      }
    }
  }

  @Test
  void columnsShorterThanTheTokensAreRefused() {
    Tensor x = Tensor.of(new byte[2 * 16], DType.FP8_E4M3, 2, 16);
    assertThatThrownBy(() -> Tokens.of(x, Tensor.of(new float[2], 2, 1), ScaleLayout.COLUMN_MAJOR))
        .isInstanceOf(InvalidArgumentException.class)
        .hasMessageStartingWith(ErrorCode.PAYLOAD_SCALES.id())
        .hasMessageContaining("at least 2]");
  }

  private static void assertColumns(Dispatch dispatch, int length, float... first) {
    Tensor scales = dispatch.scales();
    assertThat(scales.dtype()).isEqualTo(DType.FP32);
    assertThat(scales.shape()).containsExactly(COLUMNS, length);
    assertThat(scales.address() % 16).isZero();
    for (int c = 0; c < COLUMNS; c++) {
      for (int row = 0; row < first.length; row++) {
        assertThat(scales.getFloat((long) c * length + row))
            .as("column %d, row %d", c, row)
            .isEqualTo(100 * c + first[row]);
      }
    }
  }

  @Test
  void columnsLieSideBySideInWholeUnitsOf16Bytes() {
    DispatchOptions options =
        DispatchOptions.builder().scaleLayout(ScaleLayout.COLUMN_MAJOR).build();
    ThreadRanks.run(
        2,
        group -> {
          int rank = group.rank();
          try (ExpertBuffer buffer =
              ExpertBuffer.open(group, HighThroughputTest.config().build())) {
            Dispatch d =
                buffer.dispatch(tokens(rank, 0), HighThroughputTest.routing(rank), options);
            assertThat(d.rows()).isEqualTo(3);
            assertColumns(d, 4, rank == 0 ? new float[] {1, 2, 11} : new float[] {1, 3, 12});
            try (DispatchHandle handle = d.handle()) {
              Dispatch again = buffer.dispatch(tokens(rank, 0.5f), handle);
              assertColumns(
                  again, 4, rank == 0 ? new float[] {1.5f, 2.5f} : new float[] {1.5f, 3.5f});
            }
          }
        });
  }

  @Test
  void aFixedNumberOfRowsFixesTheColumns() {
    DispatchOptions options =
        DispatchOptions.builder()
            .sizing(Sizing.atMost(9))
            .scaleLayout(ScaleLayout.COLUMN_MAJOR)
            .build();
    ThreadRanks.run(
        2,
        group -> {
          int rank = group.rank();
          try (ExpertBuffer buffer =
              ExpertBuffer.open(group, HighThroughputTest.config().build())) {
            Dispatch d =
                buffer.dispatchGrouped(tokens(rank, 0), HighThroughputTest.routing(rank), options);
            assertColumns(
                d, 12, rank == 0 ? new float[] {2, 11, 1, 11} : new float[] {3, 12, 1, 3});
          }
        });
  }

  @Test
  void bytesHaveColumnsOf16Rows() {
    assertThat(ScaleLayout.columnLength(DType.UE8M0, 17)).isEqualTo(32);
    assertThat(ScaleLayout.columnLength(DType.INT32, 4)).isEqualTo(4);
    assertThat(ScaleLayout.columnLength(DType.FP32, 0)).isZero();
  }

  @Test
  void manyRowsOfAnyWidthAreTransposedByAnyNumberOfWorkers() {
    for (int workers : new int[] {1, 3}) {
      try (WorkerTeam team = new WorkerTeam("turn", workers);
          Arena arena = Arena.ofShared()) {
        for (DType dtype : new DType[] {DType.UE8M0, DType.INT32}) {
          int rows = 1_000;
          int columns = 7;
          int limit = 1_003;
          long length = ScaleLayout.columnLength(dtype, limit);
          MemorySegment from = arena.allocate(dtype.bytes((long) rows * columns), 16);
          MemorySegment to = arena.allocate(dtype.bytes(length * columns), 16);
          for (long i = 0; i < from.byteSize(); i++) {
            from.set(ValueLayout.JAVA_BYTE, i, (byte) (i * 31 + i / 251));
          }
          new ScaleTranspose()
              .toColumns(from.address(), to.address(), dtype, rows, limit, columns, team);
          long bytes = dtype.bytes(1);
          for (long r = 0; r < rows; r++) {
            for (long c = 0; c < columns; c++) {
              assertThat(
                      to.asSlice((c * length + r) * bytes, bytes)
                          .mismatch(from.asSlice((r * columns + c) * bytes, bytes)))
                  .as("%s, row %d, column %d", dtype, r, c)
                  .isEqualTo(-1);
            }
          }
        }
      }
    }
  }
}
