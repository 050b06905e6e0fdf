package org.ep4j.wire;

import org.jspecify.annotations.Nullable;

/**
 * An ordered stream of work to one peer, and its state. Used by the thread that drives the lane's
 * progress context, see {@link Wire}; any thread may read {@link #failure()}.
 *
 * <p>Work is numbered from 1 per lane. The numbers {@link #accepted()} and {@link #delivered()}
 * only grow; their difference is the work that a failure may lose.
 */
public interface Lane {
  /**
   * Result of {@link #put} and {@link #add}: too much work is in flight to this peer. Nothing was
   * accepted; poll and try again. Lanes to other peers are not affected.
   */
  long BACK_PRESSURED = -1;

  /**
   * Result of {@link #put} and {@link #add}: the lane has failed; {@link #failure()} describes the
   * failure.
   */
  long FAILED = -2;

  /** Replaces a counter: the put is not counted. A later {@link #add} can announce it. */
  int NO_COUNTER = -1;

  /** The peer. */
  int peer();

  /** Index of the lane among those to its peer. */
  int index();

  /**
   * Writes bytes into the peer's memory. The local bytes must not change until {@link #flush()} has
   * returned true.
   *
   * @param local region of the local bytes
   * @param localOffset in bytes from the begin of {@code local}
   * @param remote a region that the peer made together with this rank ({@link Wire#allocate},
   *     {@link Wire#expose})
   * @param remoteOffset in bytes from the begin of the peer's part of {@code remote}
   * @param bytes number of bytes, any alignment; 0 only counts
   * @param counter counter of the peer that grows by 1 when all bytes of this put are visible
   *     there; {@link #NO_COUNTER} for none
   * @return the number of this work, at least 1; or {@link #BACK_PRESSURED}; or {@link #FAILED}
   * @throws org.ep4j.error.InvalidArgumentException if a range or the counter does not exist
   * @throws org.ep4j.error.IllegalUseException if the wire or a region is closed
   */
  long put(
      Region local, long localOffset, Region remote, long remoteOffset, long bytes, int counter);

  /**
   * Adds to a counter of the peer after all earlier work of this lane is visible there.
   *
   * @param counter counter of the peer
   * @param value the amount; wraps around
   * @return as {@link #put}
   */
  long add(int counter, long value);

  /**
   * Sends held-back work, and returns whether the local bytes of all accepted work have left, so
   * that they may change. Does not wait: on false, poll and call again. The result does not depend
   * on the peer's progress. After a true result, that work arrives when the peer polls, even if
   * this rank never polls again. True on a failed lane: its local bytes are no longer read.
   */
  boolean flush();

  /** Number of the last accepted work; 0 for none. */
  long accepted();

  /**
   * Work up to this number has taken effect at the peer. May lag behind; catches up while both
   * sides poll.
   */
  long delivered();

  /**
   * The failure of the lane; null while it works. A failed lane carries no data in either direction
   * and never works again.
   */
  @Nullable LaneFailure failure();
}
