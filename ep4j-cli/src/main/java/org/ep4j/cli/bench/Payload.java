package org.ep4j.cli.bench;

import org.ep4j.tensor.DType;
import org.ep4j.tensor.RowFormat;
import org.jspecify.annotations.Nullable;

/** Formats of rows, by the names of {@code --dtype}. */
enum Payload {
  /** bfloat16 rows. */
  BF16(DType.BF16, DType.BF16, RowFormat.BF16),
  /** FP8 E4M3 rows with an FP32 scale per 128 values; sums are bfloat16. */
  FP8(DType.FP8_E4M3, DType.BF16, RowFormat.FP8),
  /** NVFP4 rows with an E4M3 scale per 16 values and a factor per token; sums are bfloat16. */
  NVFP4(DType.NVFP4, DType.BF16, RowFormat.NVFP4),
  /** IEEE binary16 rows. */
  FP16(DType.FP16, DType.FP16, null),
  /** IEEE binary32 rows. */
  FP32(DType.FP32, DType.FP32, null);

  private static final int FP8_BLOCK = 128;
  private static final int NVFP4_BLOCK = 16;

  private final DType rows;
  private final DType sums;
  private final @Nullable RowFormat lowLatency;

  Payload(DType rows, DType sums, @Nullable RowFormat lowLatency) {
    this.rows = rows;
    this.sums = sums;
    this.lowLatency = lowLatency;
  }

  /** Type of dispatched rows. */
  DType rows() {
    return rows;
  }

  /** Type of combined rows. */
  DType sums() {
    return sums;
  }

  /** The low-latency format, null if there is none. */
  @Nullable RowFormat lowLatency() {
    return lowLatency;
  }

  /** Type of block scales, null if rows have none. */
  @Nullable DType scales() {
    return switch (this) {
      case FP8 -> DType.FP32;
      case NVFP4 -> DType.FP8_E4M3;
      default -> null;
    };
  }

  /** Block scales of a row. */
  int scalesOf(int hidden) {
    return switch (this) {
      case FP8 -> hidden / FP8_BLOCK;
      case NVFP4 -> hidden / NVFP4_BLOCK;
      default -> 0;
    };
  }

  /** The length of a row is a multiple of this number of values. */
  int block() {
    return switch (this) {
      case FP8 -> FP8_BLOCK;
      case NVFP4 -> 32;
      default -> 128 / rows.bits();
    };
  }

  /** Bytes of a dispatched row with its scales. */
  long dispatchBytes(int hidden) {
    DType type = scales();
    long scaleBytes = type == null ? 0 : type.bytes(scalesOf(hidden));
    return rows.bytes(hidden) + scaleBytes + (this == NVFP4 ? Float.BYTES : 0);
  }

  /** Bytes of a combined row. */
  long combineBytes(int hidden) {
    return sums.bytes(hidden);
  }
}
