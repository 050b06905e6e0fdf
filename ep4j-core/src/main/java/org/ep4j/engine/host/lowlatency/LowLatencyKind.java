package org.ep4j.engine.host.lowlatency;

import org.ep4j.RowFormat;
import org.ep4j.ScaleKind;
import org.ep4j.engine.host.layout.LowLatencyLayout;

/** Kinds of operations, values of the word {@link LowLatencyLayout#KIND}. */
final class LowLatencyKind {
  private static final long DISPATCH = 1;
  private static final long COMBINE = 2;
  private static final long BY_RANKS = 1 << 24;
  private static final long WEIGHTED = 1 << 25;

  /** Combine: BF16 rows, consecutive, in the order of the dispatch list. */
  static final long DENSE = COMBINE;

  /** Combine: LogFMT-10 rows, likewise. */
  static final long DENSE_LOGFMT = COMBINE | 1 << 8;

  /** Combine: BF16 rows whose numbers are in the list of the source. */
  static final long LISTED = COMBINE | 2 << 8;

  private LowLatencyKind() {}

  /** The kind of a dispatch: all options that must be equal on all ranks to read its list. */
  static long of(LowLatencyDispatchOperation op) {
    RowFormat format = op.format.format();
    long scale = format == RowFormat.FP8 ? op.format.scaleKind().ordinal() : 0;
    long kind = DISPATCH | (long) format.ordinal() << 8 | scale << 16;
    LowLatencyRecord record = op.record;
    return record.byRanks
        ? kind | BY_RANKS | (record.weighted ? WEIGHTED : 0) | (long) record.topK << 32
        : kind;
  }

  static boolean isCombine(long kind) {
    return (kind & 0xff) == COMBINE;
  }

  /** Text for messages. */
  static String text(long kind) {
    if (isCombine(kind)) {
      return "combine";
    }
    RowFormat[] formats = RowFormat.values();
    ScaleKind[] scales = ScaleKind.values();
    int format = (int) (kind >> 8 & 0xff);
    int scale = (int) (kind >> 16 & 0xff);
    if ((kind & 0xff) != DISPATCH || format >= formats.length || scale >= scales.length) {
      return "unknown operation " + kind;
    }
    return "dispatch of "
        + formats[format]
        + (formats[format] == RowFormat.FP8 ? " with " + scales[scale] + " scales" : "")
        + ((kind & BY_RANKS) == 0
            ? ""
            : ", RANK_MAJOR, topK "
                + (kind >>> 32)
                + ((kind & WEIGHTED) == 0 ? " without weights" : " with weights"));
  }
}
