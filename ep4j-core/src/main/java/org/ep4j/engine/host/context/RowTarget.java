package org.ep4j.engine.host.context;

/**
 * A route of a row, packed into a long: its destination rank, its slot there, and the choice of its
 * token. Negative = the row has no destination (no slot is left, or the rank is dead), and all code
 * skips it.
 */
public final class RowTarget {
  public static final long NOWHERE = -1;

  private static final int CHOICE_SHIFT = 32;
  private static final int RANK_SHIFT = 40;

  private RowTarget() {}

  /**
   * Packs a route.
   *
   * @param rank destination, below 2^23
   * @param choice index among the token's choices, below 256; 0 where unused
   * @param slot row of the destination's receive region or, until that is known, the number of rows
   *     before it from the same source in the same group
   */
  public static long pack(int rank, int choice, int slot) {
    return (long) rank << RANK_SHIFT | (long) choice << CHOICE_SHIFT | slot;
  }

  public static int rank(long route) {
    return (int) (route >>> RANK_SHIFT);
  }

  public static int choice(long route) {
    return (int) (route >>> CHOICE_SHIFT) & 0xff;
  }

  public static int slot(long route) {
    return (int) route;
  }
}
