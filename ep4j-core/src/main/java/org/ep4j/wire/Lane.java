package org.ep4j.wire;

import org.jspecify.annotations.Nullable;

/**
 * An ordered stream of work to one peer, and what is known of its fate. Used by the thread that
 * drives the lane's strand, see {@link Wire}; only {@link #failure()} may be read by any thread.
 *
 * <p>Work is numbered from 1, per lane. The numbers {@link #accepted()} and {@link #delivered()}
 * only grow, and tell which work a failure may have lost.
 */
public interface Lane {
  /**
   * Result of {@link #put} and {@link #add}: too much is under way to this peer. Nothing was
   * accepted; poll and try again. Lanes to other peers are not affected.
   */
  long BACK_PRESSURED = -1;

  /** Result of {@link #put} and {@link #add}: the lane has failed, {@link #failure()} says how. */
  long FAILED = -2;

  /** In place of a counter: the put is not counted. An {@link #add} behind it can announce it. */
  int NO_COUNTER = -1;

  /** The peer. */
  int peer();

  /** Index of the lane among those to its peer. */
  int index();

  /**
   * Writes bytes into the peer's memory. The local bytes must not change until {@link #flush()} has
   * said that they have left.
   *
   * @param local where the bytes are
   * @param localOffset from the begin of {@code local}
   * @param remote a region that the peer made together with this rank ({@link Wire#allocate},
   *     {@link Wire#expose})
   * @param remoteOffset from the begin of the peer's part of {@code remote}
   * @param bytes how many, any alignment; 0 only counts
   * @param counter counter of the peer that grows by 1 once all bytes of this put are visible
   *     there; {@link #NO_COUNTER} for none
   * @return the number of this work, at least 1; or {@link #BACK_PRESSURED}; or {@link #FAILED}
   * @throws org.ep4j.InvalidArgumentException if a range or the counter does not exist
   * @throws IllegalStateException if the wire or the local region is closed
   */
  long put(
      Region local, long localOffset, Region remote, long remoteOffset, long bytes, int counter);

  /**
   * Lets a counter of the peer grow, after everything that was given to this lane before is visible
   * there.
   *
   * @param counter counter of the peer
   * @param value by how much; wraps around
   * @return as {@link #put}
   */
  long add(int counter, long value);

  /**
   * Sends off what was held back, and tells whether the local bytes of all accepted work have left,
   * so that they may change. Does not wait: if not, poll and ask again. Says nothing about the
   * peer. Once it has said so, that work arrives as the peer polls, though this rank never polls
   * again. True on a failed lane: nobody reads the bytes any more.
   */
  boolean flush();

  /** Number of the last work that was accepted; 0 for none. */
  long accepted();

  /**
   * Work up to this number is known to have taken effect at the peer. May lag behind, but catches
   * up while both sides poll.
   */
  long delivered();

  /**
   * How the lane failed; null while it works. A failed lane carries nothing any more, in neither
   * direction, and never works again.
   */
  @Nullable LaneFailure failure();
}
