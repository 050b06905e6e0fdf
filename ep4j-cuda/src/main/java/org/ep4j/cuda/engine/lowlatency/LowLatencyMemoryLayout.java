package org.ep4j.cuda.engine.lowlatency;

import org.ep4j.config.Layout;
import org.ep4j.engine.lowlatency.LowLatencyFormat;
import org.ep4j.engine.lowlatency.OutputShape;

/**
 * Offsets in the low-latency memory of one rank that no peer accesses and every operation needs:
 * two halves of outputs, which alternate, then the records of dispatches. Sizes of the memory that
 * some operations need.
 */
public final class LowLatencyMemoryLayout {
  /** The last two dispatches, and one whose combine may still be queued. */
  static final int RECORDS = 3;

  static final int HALVES = 2;

  private static final long ALIGNMENT = 256;

  /** Offsets from the start of a half, which begins with source tokens. */
  final long ranges;

  final long rowCounts;
  final long rowChoices;
  final long rowWeights;
  final long sums;

  /** Bytes of a half. */
  final long half;

  /** Offsets from the start of a record, which begins with rows of choices. */
  final long batches;

  final long choices;

  /** Bytes of a record. */
  final long record;

  /** Bytes in all. */
  public final long bytes;

  public LowLatencyMemoryLayout(OutputShape shape) {
    long tokens = shape.tokens();
    int ranks = shape.ranks();
    int topK = shape.topK();
    long slots = ranks * tokens;
    long lines = Math.max(1, shape.experts());
    ranges = align(lines * slots * Integer.BYTES);
    rowCounts = align(ranges + lines * ranks * Long.BYTES);
    rowChoices = align(rowCounts + Math.max(ranks, lines) * Integer.BYTES);
    rowWeights = align(rowChoices + slots * topK * Long.BYTES);
    sums = align(rowWeights + slots * Math.max(topK, lines) * Float.BYTES);
    half = align(sums + tokens * 2 * shape.hidden());
    batches = align(slots * topK * Integer.BYTES);
    choices = align(batches + (long) ranks * Integer.BYTES);
    record = align(choices + tokens * topK * Long.BYTES);
    bytes = HALVES * half + RECORDS * record;
  }

  /** Bytes of the padded rows of both halves in a format, with their scales. */
  public static long outputBytes(OutputShape shape, Layout layout, LowLatencyFormat format) {
    return HALVES * rowBytes(shape, layout, format);
  }

  /** Bytes of the padded rows of a dispatch with their scales. */
  static long rowBytes(OutputShape shape, Layout layout, LowLatencyFormat format) {
    int groups = shape.groups(layout);
    long capacity = shape.capacity(layout);
    long columns = (long) groups * format.columns() * format.columnLength(capacity);
    long scaleBytes =
        Math.max(groups * capacity * format.scaleBytes(), format.columnDType().bytes(columns));
    return Math.max(1, scalesOffset(format, groups * capacity) + scaleBytes);
  }

  /** Bytes of the regions of both halves that callers fill for zero-copy combines. */
  public static long combineRegionsBytes(OutputShape shape, Layout layout) {
    return HALVES * combineRegionBytes(shape, layout);
  }

  /** Bytes of the region that a caller fills for a zero-copy combine. */
  static long combineRegionBytes(OutputShape shape, Layout layout) {
    return Math.max(1, shape.groups(layout) * shape.capacity(layout) * 2 * shape.hidden());
  }

  /** Offset of the scales behind padded rows. */
  static long scalesOffset(LowLatencyFormat format, long rows) {
    return align(rows * format.rowBytes());
  }

  private static long align(long offset) {
    return (offset + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
  }
}
