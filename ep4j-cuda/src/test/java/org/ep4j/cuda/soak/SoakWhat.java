package org.ep4j.cuda.soak;

/** What a check of the soak looks at; the kernels' {@code What}, in this order. */
enum SoakWhat {
  NO_ROOM_TO_CHECK,
  ROWS,
  PADDING,
  SCALES,
  IDS,
  WEIGHTS,
  SOURCE_TOKENS,
  SOURCE_RANKS,
  RECEIVED_PER_EXPERT,
  TOKENS_PER_EXPERT,
  EXPERT_OFFSETS,
  RANK_OFFSETS,
  NUMBER_OF_ROWS,
  RECEIVED_ROWS,
  RANGES,
  SUMS,
  SUMS_OF_WEIGHTS
}
