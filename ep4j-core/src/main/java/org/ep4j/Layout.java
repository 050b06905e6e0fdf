package org.ep4j;

/** Order of the received rows. */
public enum Layout {
  /** One row per received token, ordered by (source rank, source token). */
  FLAT,
  /**
   * One row per (token, local expert), grouped by local expert. Groups start at multiples of the
   * expert alignment and are ordered by (source rank, source token).
   */
  EXPERT_MAJOR
}
