package org.ep4j.cuda.soak;

import org.jspecify.annotations.Nullable;

/** What a check of the soak looks at; the kernels' {@code What}, in this order. */
enum SoakWhat {
  NO_ROOM_TO_CHECK(null),
  ROWS(SoakWord.ROWS),
  /** Of the rows. */
  PADDING(null),
  SCALES(SoakWord.ROW_SCALES),
  IDS(SoakWord.ROW_IDS),
  WEIGHTS(SoakWord.ROW_WEIGHTS),
  SOURCE_TOKENS(SoakWord.SOURCE_TOKENS),
  SOURCE_RANKS(SoakWord.SOURCE_RANKS),
  RECEIVED_PER_EXPERT(SoakWord.RECEIVED_PER_EXPERT),
  TOKENS_PER_EXPERT(SoakWord.TOKENS_PER_EXPERT),
  EXPERT_OFFSETS(SoakWord.EXPERT_OFFSETS),
  RANK_OFFSETS(SoakWord.RANK_OFFSETS),
  NUMBER_OF_ROWS(null),
  RECEIVED_ROWS(null),
  RANGES(SoakWord.RANGES),
  SUMS(SoakWord.OUT),
  SUMS_OF_WEIGHTS(SoakWord.OUT_WEIGHTS);

  /** The word that tells the kernels where it lies; null if it is no tensor of its own. */
  final @Nullable SoakWord word;

  SoakWhat(@Nullable SoakWord word) {
    this.word = word;
  }
}
