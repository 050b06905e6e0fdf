package org.ep4j.verify;

import java.lang.foreign.MemorySegment;
import org.ep4j.LowLatencyDispatchOptions;
import org.ep4j.tensor.DType;
import org.ep4j.tensor.RowFormat;
import org.ep4j.tensor.ScaleKind;
import org.ep4j.tensor.ScaleLayout;
import org.ep4j.tensor.Tensor;
import org.jspecify.annotations.Nullable;

/** Converts BF16 rows into the format in which a low-latency dispatch delivers them. */
final class LowLatencyEncoder {
  private static final int BLOCK_OF_FP8 = 128;
  private static final int BLOCK_OF_NVFP4 = 16;

  final DType dtype;
  private final DType scaleType;
  private final int scaleColumns;
  private final MemorySegment scales;
  private MemorySegment values;
  private final LowLatencyDispatchOptions options;

  LowLatencyEncoder(LowLatencyDispatchOptions options, int hidden) {
    this.options = options;
    switch (options.format()) {
      case BF16 -> {
        dtype = DType.BF16;
        scaleType = DType.FP32;
        scaleColumns = 0;
      }
      case FP8 -> {
        dtype = DType.FP8_E4M3;
        scaleType = options.scaleKind() == ScaleKind.UE8M0 ? DType.UE8M0 : DType.FP32;
        scaleColumns = hidden / BLOCK_OF_FP8;
      }
      case NVFP4 -> {
        dtype = DType.NVFP4;
        scaleType = DType.FP8_E4M3;
        scaleColumns = hidden / BLOCK_OF_NVFP4;
      }
      default -> throw new IllegalArgumentException(String.valueOf(options.format()));
    }
    scales = MemorySegment.ofArray(new byte[(int) scaleType.bytes(scaleColumns)]);
    values = MemorySegment.ofArray(new byte[(int) dtype.bytes(hidden)]);
  }

  /** Encodes a row; {@link #check} compares it. */
  void encode(MemorySegment row) {
    if (options.format() == RowFormat.BF16) {
      values = row;
    } else if (options.format() == RowFormat.FP8) {
      Quantisers.toFp8(row, options.scaleKind(), values, scales);
    } else {
      Tensor factor = options.globalScale();
      Quantisers.toNvFp4(row, factor == null ? 1 : factor.getFloat(0), values, scales);
    }
  }

  /** The scales [groups, capacity, scaleColumns] in either layout; null if none are expected. */
  @Nullable Tensor scales(Check check, @Nullable Tensor actual, long groups, long capacity) {
    if (scaleColumns == 0) {
      check.requireNull("scales", actual);
      return null;
    }
    if (options.scaleLayout() == ScaleLayout.ROW_MAJOR) {
      return check.tensor("scales", actual, scaleType, groups, capacity, scaleColumns);
    }
    boolean packed = scaleType == DType.UE8M0;
    DType type = packed ? DType.INT32 : scaleType;
    long columns = packed ? scaleColumns / Integer.BYTES : scaleColumns;
    long length = ScaleLayout.columnLength(type, capacity);
    Tensor byColumns = check.tensor("scales", actual, type, groups, columns, length);
    MemorySegment rows = ScaleRows.of(byColumns, type, groups, capacity, columns, length);
    return Tensor.of(rows, scaleType, groups, capacity, scaleColumns);
  }

  /** Compares the encoded row with the one at {@code place}. */
  void check(Check check, Tensor rows, @Nullable Tensor rowScales, Check.Location place) {
    check.bytes("x", values, rows.segment(), place.row() * values.byteSize(), place);
    if (rowScales != null) {
      long at = place.row() * scales.byteSize();
      check.bytes("scales", scales, rowScales.segment(), at, place);
    }
  }
}
