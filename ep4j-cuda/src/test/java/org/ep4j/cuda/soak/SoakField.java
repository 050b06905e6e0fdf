package org.ep4j.cuda.soak;

/**
 * What the soak's kernels are told, 8 bytes each: the fields of their structure {@code Words}, in
 * this order. Addresses are 0 where there is nothing.
 */
enum SoakField {
  SEED,
  EPOCH,
  /** Other rows and answers with the same routing. */
  SALT,
  RANK,
  RANKS,
  /** Of each rank, 16 bits each. */
  TOKENS,
  MAX_TOKENS,
  EXPERTS,
  TOP_K,
  HIDDEN,
  /** Choices are drawn from so many experts from this one on. */
  FIRST_EXPERT,
  EXPERT_SPAN,
  /** Of 256 choices so many are given up. */
  MASKED,
  /** Of 256 tokens so many choose nothing. */
  EMPTY,
  /** A row for each choice of a local expert, in groups, instead of one for each token. */
  BY_EXPERT,
  /**
   * Groups, of experts or else of source ranks, have fixed places; answers of experts are weighed.
   */
  LOW_LATENCY,
  /** Low latency: BF16 rows arrive as FP8 with scales. */
  QUANTISED,
  /** The host has learned the number of rows: it must be right. */
  EXACT,
  ZERO_PADDING,
  WIDE_IDS,
  ALIGNMENT,
  /** Rows of the tensors that have been received. */
  LIMIT,
  /** Rows that the tables have room for. */
  CAPACITY,
  /** Words of a row as it is sent, and as it arrives. */
  SENT_WORDS,
  ROW_WORDS,
  SCALE_WORDS,
  /** Low latency: the scale of a block of 448, as the bits of a float. */
  SCALE_BITS,
  /** What the host was told, where it looks at counts. */
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
  /** Where the scale of a row lies: strides in words. */
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
