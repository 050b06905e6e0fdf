package org.ep4j.engine.host;

import org.ep4j.engine.Rails;

/**
 * What ranks of different nodes keep for each other, and the counters that they add to.
 *
 * <p>Protocol. <b>Mirrors.</b> A rank keeps for every rank of another node a mirror of the head of
 * its region: control page ({@link ControlPageLayout}) and counts ({@link CountsLayout}). Only the
 * owner of a region writes its mirrors: it puts what has changed on lane 0, then adds to the
 * counter {@link #progress} what its progress has grown by. An add follows the puts before it on
 * its lane, so whoever has seen the progress sees the mirror; the rules of {@link
 * ControlPageLayout} say when it may change. The word PROGRESS in a mirror is not used: the counter
 * stands for it.
 *
 * <p><b>Chunks.</b> Rows travel between partners ({@link Rails}) in chunks, through a ring of
 * {@link #SLOTS} chunks at the receiver for each partner. Chunks of a direction are numbered from 0
 * over the life of the connection. Chunk n goes on lane n mod lanes into slot n mod SLOTS and is
 * followed on its lane by an add to the counter {@link #arrived} of that lane: the chunk is there
 * once that counter exceeds n / lanes. The receiver adds to the counter {@link #credits} of the
 * sender when it no longer needs a chunk, oldest first; the sender fills slot n only once credits
 * exceed n - SLOTS. A credit also says that the bytes of the chunk have left the sender's own ring.
 *
 * <p>Counters are never reset. A reset of the buffer opens a new connection, with new counters.
 */
final class ScaleOutLayout {
  /** Chunks of a ring. */
  static final int SLOTS = 8;

  /** Bytes of a chunk, unless a single token needs more. */
  private static final long CHUNK = 512 << 10;

  private final int ranks;
  private final int lanes;

  /** Bytes of a chunk. */
  final long chunkBytes;

  /**
   * @param max bytes that a token takes at most, with the header of its chunk
   */
  ScaleOutLayout(int ranks, int lanes, long max) {
    this.ranks = ranks;
    this.lanes = lanes;
    chunkBytes = ControlPageLayout.align(Math.max(CHUNK, max), ControlPageLayout.BYTES);
  }

  /** Counter: progress of {@code rank}, who adds to it. */
  int progress(int rank) {
    return rank;
  }

  /** Counter: chunks that {@code rank} no longer needs, who adds to it. */
  int credits(int rank) {
    return ranks + rank;
  }

  /** Counter: chunks that have come from {@code rank} on a lane. */
  int arrived(int rank, int lane) {
    return 2 * ranks + rank * lanes + lane;
  }

  /** Counter: {@link ControlPageLayout#ABORTED} of {@code rank}, who adds to it. */
  int aborted(int rank) {
    return 2 * ranks + ranks * lanes + rank;
  }

  /** Number of counters of a rank. */
  int counters() {
    return firstInternode() + InternodeLowLatencyLayout.counters(ranks);
  }

  /** First of the counters of {@link InternodeLowLatencyLayout}. */
  int firstInternode() {
    return 3 * ranks + ranks * lanes;
  }

  /** Where a chunk lies in the rings of a rank. */
  long chunk(int place, long number) {
    return (place * (long) SLOTS + number % SLOTS) * chunkBytes;
  }

  /** Bytes of the rings of a rank, in one direction. */
  long rings(int partners) {
    return (long) partners * SLOTS * chunkBytes;
  }
}
