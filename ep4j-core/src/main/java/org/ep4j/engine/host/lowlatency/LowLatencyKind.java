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

  /** Place of the choices of a token, with rows by ranks. */
  private static final int TOP_K = 32;

  /** Place of the blocks of a row, 12 bits. */
  private static final int BLOCKS = 40;

  /** Values of a block. */
  private static final int BLOCK = 128;

  /** Place of the experts of a rank in calls with fewer experts than the buffer, 12 bits. */
  private static final int EXPERTS = 52;

  private static final long FIELD = 0xfff;

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
    kind |= record.byRanks ? BY_RANKS | (long) record.topK << TOP_K : 0;
    kind |= (op.format.hidden() / BLOCK & FIELD) << BLOCKS;
    return record.ofBuffer == null ? kind : kind | (record.localExperts & FIELD) << EXPERTS;
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
    long experts = kind >>> EXPERTS;
    return "dispatch"
        + (experts == 0 ? "" : " with " + experts + " experts a rank")
        + " of "
        + LowLatencyFormat.text(
            format,
            (kind >>> BLOCKS & FIELD) * BLOCK,
            (kind & BY_RANKS) != 0,
            kind >>> TOP_K & 0xff,
            (kind & WEIGHTED) != 0);
  }
}
