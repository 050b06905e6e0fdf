package org.ep4j.cuda.soak;

/**
 * Parameters of the soak's kernels, 8 bytes each: the fields of their structure {@code Words}, in this order. An address of 0 means none.
 */
enum SoakField {
  SEED,
  EPOCH,
  /** Changes rows and answers without changing the routing. */
  SALT,
  RANK,
  RANKS,
  /** Number of tokens of each rank, 16 bits each. */
  TOKENS,
  MAX_TOKENS,
  EXPERTS,
  TOP_K,
  HIDDEN,
  /** First expert of the range that choices are drawn from. */
  FIRST_EXPERT,
  EXPERT_SPAN,
  /** Masked choices out of 256. */
  MASKED,
  /** Tokens without choices out of 256. */
  EMPTY,
  /** One row per choice of a local expert, in groups, instead of one per token. */
  BY_EXPERT,
  /**
   * Groups, of experts or of source ranks, have fixed offsets; answers of experts are weighted.
   */
  LOW_LATENCY,
  /** Low latency: BF16 rows arrive as FP8 with scales. */
  QUANTISED,
  /** The host has read the number of rows: it must be exact. */
  EXACT,
  ZERO_PADDING,
  WIDE_IDS,
  ALIGNMENT,
  /** Rows of the received tensors. */
  LIMIT,
  /** Capacity of the tables in rows. */
  CAPACITY,
  /** Words of a row as sent, and as received. */
  SENT_WORDS,
  ROW_WORDS,
  SCALE_WORDS,
  /** Low latency: the scale of a block of 448, as the bits of a float. */
  SCALE_BITS,
  /** The row count that the host has read, if it read counts. */
  HOST_RECEIVED,
  X,
  SCALES,
  IDS,
  WEIGHTS,
  BIAS,
  ROUTES,
  HOLDERS,
  SOURCES,
  TOTALS,
  REPORT,
  ROWS,
  ROW_SCALES,
  /** Location of the scale of a row: strides in words. */
  SCALE_GROUP_ROWS,
  SCALE_GROUP_STRIDE,
  SCALE_ROW_STRIDE,
  SCALE_COLUMN_STRIDE,
  ROW_IDS,
  ROW_WEIGHTS,
  SOURCE_TOKENS,
  SOURCE_RANKS,
  RECEIVED_PER_EXPERT,
  TOKENS_PER_EXPERT,
  EXPERT_OFFSETS,
  RANK_OFFSETS,
  RANGES,
  Y,
  Y_WEIGHTS,
  OUT,
  OUT_WEIGHTS,
  /** The byte to damage. */
  VICTIM
}
