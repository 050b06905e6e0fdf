package org.ep4j.cuda.soak;

import org.jspecify.annotations.Nullable;

/** Targets of the soak's checks; the kernels' {@code What}, in this order. */
enum SoakCheck {
  NO_ROOM_TO_CHECK(null),
  ROWS(SoakField.ROWS),
  /** Padding of the rows. */
  PADDING(null),
  SCALES(SoakField.ROW_SCALES),
  IDS(SoakField.ROW_IDS),
  WEIGHTS(SoakField.ROW_WEIGHTS),
  SOURCE_TOKENS(SoakField.SOURCE_TOKENS),
  SOURCE_RANKS(SoakField.SOURCE_RANKS),
  RECEIVED_PER_EXPERT(SoakField.RECEIVED_PER_EXPERT),
  TOKENS_PER_EXPERT(SoakField.TOKENS_PER_EXPERT),
  EXPERT_OFFSETS(SoakField.EXPERT_OFFSETS),
  RANK_OFFSETS(SoakField.RANK_OFFSETS),
  NUMBER_OF_ROWS(null),
  RECEIVED_ROWS(null),
  RANGES(SoakField.RANGES),
  SUMS(SoakField.OUT),
  SUMS_OF_WEIGHTS(SoakField.OUT_WEIGHTS);

  /** The word with the address for the kernels; null if it is not a separate tensor. */
  final @Nullable SoakField word;

  SoakCheck(@Nullable SoakField word) {
    this.word = word;
  }
}
