package org.ep4j.engine.lowlatency;

import org.ep4j.tensor.DType;
import org.ep4j.tensor.RowFormat;
import org.ep4j.tensor.ScaleKind;
import org.ep4j.tensor.ScaleLayout;

/**
 * A dispatched row in one format: in transfer, a row is its values followed by its scales.
 *
 * @param format format of the values
 * @param scaleKind scales of FP8
 * @param dtype type of the values
 * @param hidden number of values
 * @param rowBytes bytes of the values
 * @param scaleDType type of the scales; undefined without scales
 * @param scales number of scales, 0 for BF16
 * @param scaleBytes bytes of the scales
 */
public record LowLatencyFormat(
    RowFormat format,
    ScaleKind scaleKind,
    DType dtype,
    int hidden,
    int rowBytes,
    DType scaleDType,
    int scales,
    int scaleBytes) {
  private static final int CACHE_LINE = 64;

  /** Values that share a scale in FP8. */
  private static final int FP8_BLOCK = 128;

  /** Values that share a scale in NVFP4. */
  private static final int NVFP4_BLOCK = 16;

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

  /** Number of a format, below {@link #COUNT}. Only FP8 has scale kinds. */
  public static int index(RowFormat format, ScaleKind scaleKind) {
    return switch (format) {
      case BF16 -> 0;
      case NVFP4 -> 1;
      case FP8 -> 2 + scaleKind.ordinal();
    };
  }

  /** Number of this format among those of its row length. */
  public int index() {
    return index(format, scaleKind);
  }

  /**
   * Text of the properties of a dispatch that all ranks must share, for messages.
   *
   * @param index number of the format
   * @param hidden values of a row; 0 = not known
   */
  public static String text(
      long index, long hidden, boolean rankMajor, long topK, boolean weighted) {
    String format =
        index == 0
            ? RowFormat.BF16.toString()
            : index == 1
                ? RowFormat.NVFP4.toString()
                : index < COUNT
                    ? RowFormat.FP8 + " with " + ScaleKind.values()[(int) index - 2] + " scales"
                    : "format " + index;
    String what =
        rankMajor
            ? format
                + ", RANK_MAJOR, topK "
                + topK
                + (weighted ? " with weights" : " without weights")
            : weighted ? format + " with deliverWeights" : format;
    return hidden == 0 ? what : what + ", rows of " + hidden;
  }

  /** Bytes from row to row where rows and their scales are packed into whole cache lines. */
  public int stride() {
    return (rowBytes + scaleBytes + CACHE_LINE - 1) / CACHE_LINE * CACHE_LINE;
  }

  /** Type of the elements of a column of scales: a word holds four UE8M0. */
  public DType columnDType() {
    return scaleDType == DType.UE8M0 ? DType.INT32 : scaleDType;
  }

  /** Number of columns of scales. */
  public int columns() {
    return scaleDType == DType.UE8M0 ? scales / Integer.BYTES : scales;
  }

  /** Elements of a column of scales for {@code rows} rows, padding included. */
  public long columnLength(long rows) {
    return ScaleLayout.columnLength(columnDType(), rows);
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
    return new LowLatencyFormat(
        format,
        scaleKind,
        dtype,
        hidden,
        Math.toIntExact(dtype.bytes(hidden)),
        scaleDType,
        scales,
        Math.toIntExact(scaleDType.bytes(scales)));
  }

  /** Largest number of bytes of scales of a row. */
  public static int maxScaleBytes(int hidden) {
    return hidden / NVFP4_BLOCK;
  }
}
