package org.ep4j.engine.host.layout;

/**
 * A rank's counts in a dispatch: how many rows it sends to each rank and expert, and how many it
 * can receive.
 *
 * <p>Protocol. The owner writes the counts with plain stores before it publishes {@link
 * ControlPageLayout#ENTERED}. Every rank reads the counts of all ranks after it observes ENTERED
 * and before it publishes {@link ControlPageLayout#FINISHED}. All ranks compute the same slots from
 * the same numbers, without atomics.
 */
public final class CountsLayout {
  /** Long: rows that the owner's receive region can take in this dispatch. */
  public static final long LIMIT = 0;

  /** Int[ranks]: number of the owner's tokens for each rank. */
  public static final long PER_RANK = ControlPageLayout.LINE;

  /**
   * Int[experts]: number of the owner's tokens for each expert, in order of (rank, local number).
   */
  public final long perExpert;

  /** Bytes in all. */
  final long bytes;

  CountsLayout(int ranks, int experts) {
    perExpert = ControlPageLayout.align(PER_RANK + 4L * ranks, ControlPageLayout.LINE);
    bytes = ControlPageLayout.align(perExpert + 4L * experts, ControlPageLayout.BYTES);
  }
}
