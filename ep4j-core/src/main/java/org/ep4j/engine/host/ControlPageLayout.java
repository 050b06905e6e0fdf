package org.ep4j.engine.host;

import org.ep4j.engine.OperationLayout;

/**
 * The first page of each rank's symmetric region: where the rank stands.
 *
 * <p>Protocol. Only the owner writes its page. {@link #DESCRIPTOR} is written first, plainly; then
 * {@link #PROGRESS} with release order; peers read PROGRESS with acquire order, so whatever the
 * owner wrote before (descriptor, counts, rows in anybody's region) is visible once PROGRESS shows
 * it. PROGRESS = {@code epoch * PHASES + phase} and only grows: nothing is ever reset, a waiter
 * waits for "at least". (After a loss the live ranks go on in a new, zeroed page, see {@link
 * RegionReplacement}; none reads it before its owner has restarted.) Every collective
 * high-throughput operation, barrier and reset is one epoch on all ranks. Low-latency operations
 * have words of their own ({@code LowLatencyLayout}) because two of them may be in flight.
 *
 * <p>Phases of an epoch: {@link #ENTERED}, the owner has described its operation, published what
 * the others need to know, and has finished with the results of the operation before; {@link
 * #FINISHED}, the owner reads and writes nobody's memory any more for this epoch. A rank enters the
 * next epoch only after all have finished this one, so what a rank published at ENTERED stays
 * readable until its reader has published FINISHED.
 */
final class ControlPageLayout {
  /** Long: epoch and phase reached. */
  static final long PROGRESS = 0;

  /**
   * {@link OperationLayout}: what the owner takes the current epoch's operation for. Written before
   * {@link #ENTERED} of the epoch; compared by every peer after it has seen that and before it
   * publishes {@link #FINISHED}, so no word changes under a reader.
   */
  static final long DESCRIPTOR = 128;

  /**
   * Long: grows when the owner has left an operation halfway and will do its part in none until the
   * next reset, or is about to leave this memory to ranks that were lost. It is then 1 more than
   * the epoch that was agreed on by the last reset, or 1 before the first. Written with release
   * order after {@link #FAILED_RANK} to {@link #TEXT}, which say why, and with a full fence before
   * the owner lets the rows that others may be reading change. Read with acquire order by ranks
   * that wait in vain, and by all behind their last read of an epoch ({@link HostContext#finish}):
   * as much or more than they know means that what they have read may not be rows. Ranks of other
   * nodes read a counter in its place, see {@link ScaleOutLayout#aborted}.
   */
  static final long ABORTED = 1024;

  /** Int: the rank where the trouble began. */
  static final long FAILED_RANK = ABORTED + 8;

  /** Int: 1 if that rank is dead or cannot be reached. */
  static final long FAILED_RANK_DEAD = ABORTED + 12;

  /** Int: the rank that says so. */
  static final long REPORTER = ABORTED + 16;

  /** Int: bytes of text. */
  static final long TEXT_LENGTH = ABORTED + 20;

  /** UTF-8: what to say of the rank where the trouble began. */
  static final long TEXT = ABORTED + 24;

  /** Most bytes of it. */
  static final int MAX_TEXT = 1024;

  /** Distance between words that different ranks write, so that they never share a cache line. */
  static final long LINE = 128;

  /** Bytes of the page. */
  static final long BYTES = 4096;

  /** Phases an epoch is divided into. */
  static final int PHASES = 16;

  /** Phase: described, and done with the results of the previous operation. */
  static final int ENTERED = 1;

  /** Phase: the owner is done with everybody's memory. */
  static final int FINISHED = 2;

  private ControlPageLayout() {}

  static long progress(long epoch, int phase) {
    return epoch * PHASES + phase;
  }

  static long align(long bytes, long alignment) {
    return (bytes + alignment - 1) / alignment * alignment;
  }
}
