package org.ep4j.cuda.engine;

/**
 * How many tokens share a slot on the way to another node and back; the numbers are those of {@code
 * internode_flat_record.cuh} and {@code internode_return_layout.cuh}. All ranks come to the same,
 * whatever their settings.
 */
final class InternodeChunks {
  /**
   * Bytes of a slot that are used: few enough that what is on its way at a time, a slot of each
   * warp, takes little of an operation.
   */
  private static final long CHUNK = 128 << 10;

  /** A warp has a lane a token. */
  private static final int MAX_TOKENS = 32;

  private static final long HEADER = 128;
  private static final long UNIT = 16;

  /** Records, and rows in them, begin at multiples of this. */
  private static final long LINE = 128;

  private InternodeChunks() {}

  /** Bytes of a FLAT dispatch's record in front of its row. */
  static long rowOffset(long scaleBytes, int topK, boolean cached) {
    long choices = (long) topK * (cached ? Long.BYTES : 2 * Long.BYTES);
    return alignToLine(align(UNIT + choices) + scaleBytes);
  }

  /** The same of an EXPERT_MAJOR dispatch. */
  static long expertRowOffset(long metadataBytes, int topK) {
    return alignToLine(align(UNIT + (long) topK * (Long.BYTES + Integer.BYTES)) + metadataBytes);
  }

  /** Tokens of a chunk of a dispatch. */
  static int tokens(long recordBytes, long slotBytes) {
    return tokensOf(
        Math.min(CHUNK, slotBytes - HEADER), alignToLine(recordBytes), slotBytes - HEADER);
  }

  /** Bytes of a row on its way back, with its weights. */
  static long returnRecordBytes(long rowBytes, int topK, boolean weighted) {
    return alignToLine(rowBytes + (weighted ? (long) topK * Float.BYTES : 0));
  }

  /**
   * Tokens of a chunk of a combine.
   *
   * @param rows that a token has at most in one node on their way
   */
  static int returnTokens(long returnRecordBytes, int rows, long slotBytes) {
    return tokensOf(CHUNK, rows * returnRecordBytes, slotBytes);
  }

  private static int tokensOf(long wanted, long each, long most) {
    if (each > most) {
      throw new IllegalStateException(
          "a token of " + each + " bytes does not fit into a slot of " + most);
    }
    return Math.clamp(Math.min(wanted, most) / each, 1, MAX_TOKENS);
  }

  private static long align(long bytes) {
    return Math.ceilDiv(bytes, UNIT) * UNIT;
  }

  /** Whole lines: what is not, crosses the bus in more packets than it fills. */
  static long alignToLine(long bytes) {
    return Math.ceilDiv(bytes, LINE) * LINE;
  }
}
