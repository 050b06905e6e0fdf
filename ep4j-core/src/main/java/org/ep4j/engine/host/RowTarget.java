package org.ep4j.engine.host;

/**
 * A way of a row, packed into a long: which rank it goes to, into which slot there, and which of
 * its token's choices it serves. Negative = the row goes nowhere (its slot does not fit, or the
 * rank is gone) and is skipped by everybody.
 */
final class RowTarget {
  static final long NOWHERE = -1;

  private static final int CHOICE_SHIFT = 32;
  private static final int RANK_SHIFT = 40;

  private RowTarget() {}

  /**
   * @param rank destination, below 2^23
   * @param choice position among the token's choices, below 256; 0 where it does not matter
   * @param slot row of the destination's receive region, or, until that is known, the number of
   *     rows before it from the same source in the same group
   */
  static long pack(int rank, int choice, int slot) {
    return (long) rank << RANK_SHIFT | (long) choice << CHOICE_SHIFT | slot;
  }

  static int rank(long route) {
    return (int) (route >>> RANK_SHIFT);
  }

  static int choice(long route) {
    return (int) (route >>> CHOICE_SHIFT) & 0xff;
  }

  static int slot(long route) {
    return (int) route;
  }
}
