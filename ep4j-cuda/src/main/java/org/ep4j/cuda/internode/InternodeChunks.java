package org.ep4j.cuda.internode;

/**
 * Tokens per slot between nodes, in both directions; the numbers are those of {@code
 * internode_flat_record.cuh}, {@code internode_return_layout.cuh} and {@code
 * return_expert_rows.cuh}. All ranks compute the same values, independent of their settings.
 */
public final class InternodeChunks {
  /**
   * Used bytes of a slot: small enough that the slots in flight, one per warp, are a small part of
   * an operation.
   */
  private static final long CHUNK = 128 << 10;

  /** A warp has one lane per token. */
  private static final int MAX_TOKENS = 32;

  private static final long HEADER = 128;
  private static final long UNIT = 16;

  /** Alignment of records and of rows in them. */
  private static final long LINE = 128;

  private InternodeChunks() {}

  /** Bytes of a FLAT dispatch's record before its row. */
  public static long rowOffset(long scaleBytes, int topK, boolean cached) {
    long choices = (long) topK * (cached ? Long.BYTES : 2 * Long.BYTES);
    return alignToLine(align(UNIT + choices) + scaleBytes);
  }

  /** Bytes of an EXPERT_MAJOR dispatch's record before its row. */
  public static long expertRowOffset(long metadataBytes, int topK) {
    return alignToLine(align(UNIT + (long) topK * (Long.BYTES + Integer.BYTES)) + metadataBytes);
  }

  /** Tokens of a chunk of a dispatch. */
  public static int tokens(long recordBytes, long slotBytes) {
    return tokensOf(
        Math.min(CHUNK, slotBytes - HEADER), alignToLine(recordBytes), slotBytes - HEADER);
  }

  /** Bytes of a returning row with its weights. */
  public static long returnRecordBytes(long rowBytes, int topK, boolean weighted) {
    return alignToLine(rowBytes + (weighted ? (long) topK * Float.BYTES : 0));
  }

  /** Bytes of a returning row in the order of experts, with its weight. */
  public static long expertReturnRecordBytes(long rowBytes) {
    return alignToLine(rowBytes + Float.BYTES);
  }

  /** Bytes of such a row, so that a slot has room for a row of each choice of a token. */
  public static long expertReturnRowBytes(int topK, long slotBytes) {
    return (slotBytes / topK / LINE * LINE - Float.BYTES) / UNIT * UNIT;
  }

  /**
   * Tokens of a chunk of a combine.
   *
   * @param rows largest number of returning rows of a token in one node
   */
  public static int returnTokens(long returnRecordBytes, int rows, long slotBytes) {
    return tokensOf(CHUNK, rows * returnRecordBytes, slotBytes);
  }

  private static int tokensOf(long wanted, long each, long max) {
    if (each > max) {
      throw new IllegalStateException(
          "a token of " + each + " bytes does not fit into a slot of " + max);
    }
    return Math.clamp(Math.min(wanted, max) / each, 1, MAX_TOKENS);
  }

  private static long align(long bytes) {
    return Math.ceilDiv(bytes, UNIT) * UNIT;
  }

  /** Rounds up to 128 bytes: a partial unit crosses the bus in extra packets. */
  public static long alignToLine(long bytes) {
    return Math.ceilDiv(bytes, LINE) * LINE;
  }
}
