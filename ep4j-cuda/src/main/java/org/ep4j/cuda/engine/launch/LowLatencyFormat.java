package org.ep4j.cuda.engine.launch;

import org.ep4j.DType;
import org.ep4j.RowFormat;
import org.ep4j.ScaleKind;
import org.ep4j.ScaleLayout;

/**
 * Layout of a dispatched row in one format: values, then scales.
 *
 * @param index number of the format
 * @param format target format of the BF16 row
 * @param scaleKind scales of FP8
 * @param dtype type of the values
 * @param rowBytes bytes of the values
 * @param scaleDType type of the scales; undefined without scales
 * @param scales number of scales, 0 for BF16
 * @param scaleBytes bytes of the scales
 */
public record LowLatencyFormat(
    int index,
    RowFormat format,
    ScaleKind scaleKind,
    DType dtype,
    long rowBytes,
    DType scaleDType,
    int scales,
    long scaleBytes) {
  private static final int FP8_BLOCK = 128;
  private static final int NVFP4_BLOCK = 16;

  /** Number of formats. */
  public static final int COUNT = 5;

  /** All formats of rows of {@code hidden} values, each at its {@link #index}. */
  public static LowLatencyFormat[] all(int hidden) {
    LowLatencyFormat[] all = new LowLatencyFormat[COUNT];
    all[0] = make(RowFormat.BF16, ScaleKind.FLOAT32, DType.BF16, DType.FP32, hidden, 0);
    all[1] =
        make(
            RowFormat.NVFP4,
            ScaleKind.FLOAT32,
            DType.NVFP4,
            DType.FP8_E4M3,
            hidden,
            hidden / NVFP4_BLOCK);
    for (ScaleKind kind : ScaleKind.values()) {
      DType type = kind == ScaleKind.UE8M0 ? DType.UE8M0 : DType.FP32;
      all[index(RowFormat.FP8, kind)] =
          make(RowFormat.FP8, kind, DType.FP8_E4M3, type, hidden, hidden / FP8_BLOCK);
    }
    return all;
  }

  /** Type of the elements of a column of scales: four UE8M0 scales share a word. */
  public DType columnDType() {
    return scaleDType == DType.UE8M0 ? DType.INT32 : scaleDType;
  }

  /** Number of columns of scales. */
  public int columns() {
    return scaleDType == DType.UE8M0 ? scales / Integer.BYTES : scales;
  }

  /** Scales in a column of {@code rows} rows, padding included. */
  public long columnLength(long rows) {
    return ScaleLayout.columnLength(columnDType(), rows);
  }

  public static int index(RowFormat format, ScaleKind scaleKind) {
    return switch (format) {
      case BF16 -> 0;
      case NVFP4 -> 1;
      case FP8 -> 2 + scaleKind.ordinal();
    };
  }

  /** Name of the format with an {@link #index}, for messages. */
  static String text(long index) {
    if (index == 0) {
      return RowFormat.BF16.toString();
    }
    if (index == 1) {
      return RowFormat.NVFP4.toString();
    }
    return index < COUNT
        ? RowFormat.FP8 + " with " + ScaleKind.values()[(int) index - 2] + " scales"
        : "format " + index;
  }

  private static LowLatencyFormat make(
      RowFormat format,
      ScaleKind scaleKind,
      DType dtype,
      DType scaleDType,
      int hidden,
      int scales) {
    return new LowLatencyFormat(
        index(format, scaleKind),
        format,
        scaleKind,
        dtype,
        dtype.bytes(hidden),
        scaleDType,
        scales,
        scaleDType.bytes(scales));
  }
}
