package org.ep4j.engine.host.layout;

import org.ep4j.engine.OperationLayout;
import org.ep4j.engine.host.context.HostContext;

/**
 * The first page of each rank's symmetric region: the progress of the rank.
 *
 * <p>Protocol. Only the owner writes its page. The owner writes {@link #DESCRIPTOR} with plain
 * stores, then {@link #PROGRESS} with release order; peers read PROGRESS with acquire order, so all
 * earlier writes of the owner (descriptor, counts, rows in any region) are visible once a peer
 * observes PROGRESS. PROGRESS = {@code epoch * PHASES + phase} and only grows: no rank resets it,
 * and waits are monotonic thresholds. (After a loss the live ranks continue in a new, zeroed page,
 * see {@code RegionReplacement}; no rank reads the page before its owner has restarted.) Every
 * collective high-throughput operation, barrier and reset is one epoch on all ranks. Low-latency
 * operations have their own words ({@code LowLatencyLayout}) because two of them may be in flight.
 *
 * <p>Phases of an epoch: {@link #ENTERED}, the owner has described its operation, published its
 * inputs, and no longer needs the results of the operation before; {@link #FINISHED}, the owner no
 * longer accesses the memory of other ranks in this epoch. A rank enters the next epoch only after
 * all ranks have finished this one, so inputs published at ENTERED stay readable until their reader
 * has published FINISHED.
 */
public final class ControlPageLayout {
  /** Long: epoch and phase reached. */
  public static final long PROGRESS = 0;

  /**
   * {@link OperationLayout}: the owner's description of the operation of the current epoch. Written
   * before {@link #ENTERED} of the epoch. Every peer compares it after it observes ENTERED and
   * before it publishes {@link #FINISHED}, so no word changes under a reader.
   */
  public static final long DESCRIPTOR = 128;

  /**
   * Long: grows when the owner has aborted an operation and takes part in no operation until the
   * next reset, or is about to leave this memory to lost ranks. The new value is 1 more than the
   * epoch agreed on by the last reset, or 1 before the first reset. Written with release order
   * after {@link #FAILED_RANK} to {@link #TEXT}, which hold the reason, and with a full fence
   * before the owner lets rows change that others may be reading. Read with acquire order by ranks
   * whose wait does not end, and by all ranks after their last read of an epoch ({@link
   * HostContext#finish}): a value of at least the expected one means that the data read may not be
   * rows. Ranks of other nodes read a counter instead, see {@link ScaleOutLayout#aborted}.
   */
  public static final long ABORTED = 1024;

  /** Int: the rank that caused the abort. */
  public static final long FAILED_RANK = ABORTED + 8;

  /** Int: 1 if that rank is dead or unreachable. */
  public static final long FAILED_RANK_DEAD = ABORTED + 12;

  /** Int: the rank that reports the abort. */
  public static final long REPORTER = ABORTED + 16;

  /** Int: bytes of text. */
  public static final long TEXT_LENGTH = ABORTED + 20;

  /** UTF-8: the state of the rank that caused the abort. */
  public static final long TEXT = ABORTED + 24;

  /** Maximum bytes of the text. */
  public static final int MAX_TEXT = 1024;

  /**
   * Long: 1 when the owner has closed its buffer, and so enters no further operation. Written with
   * release order after the last operation of the owner. Read with acquire order by ranks of the
   * node whose wait for the owner does not end; what the owner wrote before is then visible. Unlike
   * {@link #ABORTED} it ends no wait for another rank: that rank may be in the last operation yet.
   */
  public static final long CLOSED = 2176;

  /** Distance between words that different ranks write: they never share a cache line. */
  static final long LINE = 128;

  /** Bytes of the page. */
  static final long BYTES = 4096;

  /** Number of phases of an epoch. */
  public static final int PHASES = 16;

  /**
   * Phase: the owner has described its operation and no longer needs the results of the one before.
   */
  public static final int ENTERED = 1;

  /** Phase: the owner no longer accesses the memory of other ranks. */
  public static final int FINISHED = 2;

  private ControlPageLayout() {}

  public static long progress(long epoch, int phase) {
    return epoch * PHASES + phase;
  }

  public static long align(long bytes, long alignment) {
    return (bytes + alignment - 1) / alignment * alignment;
  }
}
