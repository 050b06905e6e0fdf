package org.ep4j.engine;

import org.ep4j.CombineOrder;
import org.ep4j.config.Layout;
import org.ep4j.tensor.DType;
import org.ep4j.tensor.RowFormat;
import org.ep4j.tensor.ScaleKind;

/**
 * The words of an operation's description: the values that all ranks must share so that their bytes
 * have one meaning. The engine defines their address, readers and memory order. A field that an
 * operation does not have is 0.
 */
public final class OperationLayout {
  /** Number of the operation; differs if one rank has called more operations than another. */
  public static final int EPOCH = 0;

  /** One of the kinds below. */
  public static final int KIND = 1;

  /** {@link DType} of the rows, ordinal. */
  public static final int DTYPE = 2;

  /** {@link DType} of the scales, ordinal + 1; 0 = none. */
  public static final int SCALE_DTYPE = 3;

  /** Scales per row. */
  public static final int SCALES = 4;

  /** 1 if rows have a scale of their own (NVFP4). */
  public static final int GLOBAL_SCALES = 5;

  /** Choices per token. */
  public static final int TOP_K = 6;

  /** 1 if the dispatch sends weights. */
  public static final int WEIGHTS = 7;

  /** {@link Layout}, ordinal. */
  public static final int LAYOUT = 8;

  /** 1 if the caller sets the number of rows. */
  public static final int STATIC_SIZING = 9;

  /** Group sizes are rounded up to multiples of this number. */
  public static final int EXPERT_ALIGNMENT = 10;

  /** Combine, cached dispatch: epoch of the dispatch whose handle is used. */
  public static final int HANDLE = 11;

  /** Combine: 1 if a rank's partial sums are rounded. */
  public static final int PARTIAL_ROUNDING = 12;

  /** Low-latency dispatch: format of the rows, see {@link #rowFormat}. */
  public static final int ROW_FORMAT = 13;

  /** Low-latency combine: 1 if rows travel as LogFMT-10. */
  public static final int LOG_FMT = 14;

  /** High-throughput combine: 1 if rows are multiplied by their weights. */
  public static final int APPLY_WEIGHTS = 15;

  /** Dispatch and combine: elements of a row. */
  public static final int HIDDEN = 16;

  /** Dispatch with new routes: experts of the call. */
  public static final int EXPERTS = 17;

  /** High-throughput combine: {@link CombineOrder}, ordinal. */
  public static final int ORDER = 18;

  /** Number of words. */
  public static final int FIELDS = 19;

  /** Bytes of a description. */
  public static final long BYTES = FIELDS * 8L;

  /** Kind: a dispatch that computes new routes. */
  public static final long DISPATCH = 1;

  /** Kind: a dispatch along the routes of a handle. */
  public static final long CACHED_DISPATCH = 2;

  /** Kind: a combine. */
  public static final long COMBINE = 3;

  /** Kind: a barrier. */
  public static final long BARRIER = 4;

  /** Kind: a low-latency dispatch. */
  public static final long LOW_LATENCY_DISPATCH = 5;

  /** Kind: a low-latency combine. */
  public static final long LOW_LATENCY_COMBINE = 6;

  private static final String[] KINDS = {
    "none",
    "dispatch",
    "cached dispatch",
    "combine",
    "barrier",
    "low-latency dispatch",
    "low-latency combine"
  };
  private static final String[] NAMES = {
    "operation number",
    "operation",
    "dtype of the rows",
    "dtype of the scales",
    "scales per row",
    "presence of globalScales",
    "topK",
    "presence of topkWeights",
    "layout",
    "presence of a row limit (Sizing)",
    "expertAlignment",
    "handle (number of its dispatch)",
    "partialRounding",
    "format of the rows",
    "logFmt",
    "applyWeights",
    "elements of a row (hidden)",
    "experts of the call",
    "order"
  };

  private static final int SCALE_KINDS = ScaleKind.values().length;

  private OperationLayout() {}

  /** Value of {@link #ROW_FORMAT}. Only FP8 has scale kinds. */
  public static long rowFormat(RowFormat format, ScaleKind scaleKind) {
    int kind = format == RowFormat.FP8 ? scaleKind.ordinal() : 0;
    return (long) format.ordinal() * SCALE_KINDS + kind;
  }

  /** Offset of a field in a description. */
  static long offset(int field) {
    return field * 8L;
  }

  /** Name of a field, for messages. */
  static String name(int field) {
    return NAMES[field];
  }

  /** Value of a field as text. */
  static String text(int field, long value) {
    return switch (field) {
      case KIND -> value >= 0 && value < KINDS.length ? KINDS[(int) value] : "unknown " + value;
      case DTYPE -> named(DType.values(), value);
      case SCALE_DTYPE -> value == 0 ? "none" : named(DType.values(), value - 1);
      case LAYOUT -> named(Layout.values(), value);
      case ROW_FORMAT -> rowFormatText(value);
      case ORDER -> named(CombineOrder.values(), value);
      case GLOBAL_SCALES, WEIGHTS, STATIC_SIZING, PARTIAL_ROUNDING, LOG_FMT, APPLY_WEIGHTS ->
          value == 0 ? "no" : "yes";
      default -> Long.toString(value);
    };
  }

  private static String rowFormatText(long value) {
    String format = named(RowFormat.values(), value / SCALE_KINDS);
    return format.equals(RowFormat.FP8.name())
        ? format + " with " + named(ScaleKind.values(), value % SCALE_KINDS) + " scales"
        : format;
  }

  private static String named(Enum<?>[] values, long ordinal) {
    return ordinal >= 0 && ordinal < values.length
        ? values[(int) ordinal].name()
        : "unknown " + ordinal;
  }
}
