package org.ep4j;

/** Order of the rows that a rank receives. */
public enum Layout {
  /** One row per received token, ordered by (source rank, source token). */
  FLAT,
  /**
   * One row per (token, local expert), grouped by local expert; groups start at multiples of the
   * expert alignment; inside a group ordered by (source rank, source token).
   */
  EXPERT_MAJOR
}
