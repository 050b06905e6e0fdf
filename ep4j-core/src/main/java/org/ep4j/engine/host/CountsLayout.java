package org.ep4j.engine.host;

/**
 * A rank's counts in a dispatch: how many rows it sends where, and how many it takes.
 *
 * <p>Protocol. The owner writes them plainly before it publishes {@link ControlPageLayout#ENTERED};
 * every rank reads those of all ranks after it has seen that and before it publishes {@link
 * ControlPageLayout#FINISHED}. From the same numbers all ranks compute the same slots, without
 * atomics.
 */
final class CountsLayout {
  /** Long: rows that the owner's receive region takes in this dispatch. */
  static final long LIMIT = 0;

  /** Int[ranks]: tokens of the owner that go to each rank. */
  static final long PER_RANK = ControlPageLayout.LINE;

  /** Int[experts]: tokens of the owner that go to each expert, in order of (rank, local number). */
  final long perExpert;

  /** Bytes in all. */
  final long bytes;

  CountsLayout(int ranks, int experts) {
    perExpert = ControlPageLayout.align(PER_RANK + 4L * ranks, ControlPageLayout.LINE);
    bytes = ControlPageLayout.align(perExpert + 4L * experts, ControlPageLayout.BYTES);
  }
}
