package org.ep4j.engine.host.layout;

import org.ep4j.DType;
import org.ep4j.RowFormat;
import org.ep4j.ScaleKind;

/**
 * Layout of a row in one format: in transfer, a row is its values followed by its scales.
 *
 * @param format format of the values
 * @param scaleKind scales of FP8
 * @param dtype type of the values
 * @param rowBytes bytes of the values
 * @param scaleDType type of the scales; unused without scales
 * @param scales number of scales, 0 for BF16
 * @param scaleBytes bytes of the scales
 * @param stride stride of rows in transfer
 */
public record LowLatencyFormat(
    RowFormat format,
    ScaleKind scaleKind,
    DType dtype,
    int rowBytes,
    DType scaleDType,
    int scales,
    int scaleBytes,
    int stride) {
  private static final int CACHE_LINE = 64;

  /** Values that share a scale in FP8. */
  static final int FP8_BLOCK = 128;

  /** Values that share a scale in NVFP4. */
  static final int NVFP4_BLOCK = 16;

  /** Number of formats. */
  public static final int COUNT = 5;

  /** All formats of rows of {@code hidden} values, each at its {@link #index}. */
  public static LowLatencyFormat[] all(int hidden) {
    LowLatencyFormat[] all = new LowLatencyFormat[COUNT];
    for (RowFormat format : RowFormat.values()) {
      for (ScaleKind scaleKind : ScaleKind.values()) {
        all[index(format, scaleKind)] = of(format, scaleKind, hidden);
      }
    }
    return all;
  }

  public static int index(RowFormat format, ScaleKind scaleKind) {
    return switch (format) {
      case BF16 -> 0;
      case NVFP4 -> 1;
      case FP8 -> 2 + scaleKind.ordinal();
    };
  }

  public int index() {
    return index(format, scaleKind);
  }

  /** Type of the elements of a column of scales: a word holds four UE8M0. */
  public DType columnDType() {
    return scaleDType == DType.UE8M0 ? DType.INT32 : scaleDType;
  }

  /** Number of columns of scales. */
  public int columns() {
    return scaleDType == DType.UE8M0 ? scales / Integer.BYTES : scales;
  }

  private static LowLatencyFormat of(RowFormat format, ScaleKind scaleKind, int hidden) {
    return switch (format) {
      case BF16 -> make(format, scaleKind, DType.BF16, DType.FP32, hidden, 0);
      case FP8 ->
          make(
              format,
              scaleKind,
              DType.FP8_E4M3,
              scaleKind == ScaleKind.UE8M0 ? DType.UE8M0 : DType.FP32,
              hidden,
              hidden / FP8_BLOCK);
      case NVFP4 ->
          make(format, scaleKind, DType.NVFP4, DType.FP8_E4M3, hidden, hidden / NVFP4_BLOCK);
    };
  }

  private static LowLatencyFormat make(
      RowFormat format,
      ScaleKind scaleKind,
      DType dtype,
      DType scaleDType,
      int hidden,
      int scales) {
    int rowBytes = Math.toIntExact(dtype.bytes(hidden));
    int scaleBytes = Math.toIntExact(scaleDType.bytes(scales));
    int stride = Math.toIntExact(ControlPageLayout.align(rowBytes + scaleBytes, CACHE_LINE));
    return new LowLatencyFormat(
        format, scaleKind, dtype, rowBytes, scaleDType, scales, scaleBytes, stride);
  }

  /** Maximum bytes of scales of a row over all formats. */
  static int maxScaleBytes(int hidden) {
    return hidden / NVFP4_BLOCK;
  }
}
