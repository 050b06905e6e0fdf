package org.ep4j.engine.host.lowlatency;

import org.ep4j.engine.host.layout.LowLatencyLayout;
import org.ep4j.engine.lowlatency.LowLatencyFormat;

/** Kinds of operations, values of the word {@link LowLatencyLayout#KIND}. */
final class LowLatencyKind {
  private static final long DISPATCH = 1;
  private static final long COMBINE = 2;

  /** Place of the index of the format. */
  private static final int FORMAT = 8;

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
    long kind = DISPATCH | (long) op.format.index() << FORMAT;
    LowLatencyRecord record = op.record;
    kind |= record.weighted ? WEIGHTED : 0;
    return record.byRanks ? kind | BY_RANKS | (long) record.topK << 32 : kind;
  }

  static boolean isCombine(long kind) {
    return (kind & 0xff) == COMBINE;
  }

  /** Text for messages. */
  static String text(long kind) {
    if (isCombine(kind)) {
      return "combine";
    }
    int format = (int) (kind >> FORMAT & 0xff);
    if ((kind & 0xff) != DISPATCH || format >= LowLatencyFormat.COUNT) {
      return "unknown operation " + kind;
    }
    return "dispatch of "
        + LowLatencyFormat.text(
            format, (kind & BY_RANKS) != 0, kind >>> 32, (kind & WEIGHTED) != 0);
  }
}
