package org.ep4j.engine.host.layout;

import org.ep4j.engine.world.Rails;

/**
 * Memory that ranks keep for ranks of other nodes, and the counters that these add to.
 *
 * <p>Protocol. <b>Mirrors.</b> A rank keeps for every rank of another node a mirror of the head of
 * its region: control page ({@link ControlPageLayout}) and counts ({@link
 * HighThroughputLayout.CountsLayout}). Only the owner of a region writes its mirrors: it puts
 * changed bytes on lane 0, then adds the increase of its progress to the counter {@link #progress}.
 * An add follows the puts before it on its lane, so a reader that observes the progress also sees
 * the mirror; the rules of {@link ControlPageLayout} define when the mirror may change. The counter
 * replaces the word PROGRESS, which is unused in a mirror.
 *
 * <p><b>Chunks.</b> Rows travel between partners ({@link Rails}) in chunks, through a ring of
 * {@link #SLOTS} chunks at the receiver for each partner. Chunks of a direction are numbered from 0
 * over the life of the connection. Chunk n uses lane n mod lanes and slot n mod SLOTS; an add to
 * the counter {@link #arrived} of that slot follows it on the lane: the chunk has arrived once that
 * counter exceeds n / SLOTS. Lanes are independent of each other, but not the chunks of a slot: a
 * chunk leaves only after the one before it in its slot has been released. So the numbers of lanes
 * and slots need not match, and more lanes than slots take turns. The receiver adds to the counter
 * {@link #credits} of the sender when it releases a chunk, oldest first; the sender fills slot n
 * only once credits exceed n - SLOTS. A credit also means that the bytes of the chunk have left the
 * sender's own ring.
 *
 * <p>No rank resets a counter. A reset of the buffer opens a new connection with new counters.
 */
public final class ScaleOutLayout {
  /** Number of chunks of a ring. */
  public static final int SLOTS = 8;

  /** Bytes of a chunk, unless a single token needs more or a full batch less. */
  private static final long CHUNK = 512 << 10;

  private final int ranks;

  /** Bytes of a chunk. */
  public final long chunkBytes;

  /**
   * @param token maximum bytes of a token, with the header of its chunk
   * @param batch maximum bytes of all tokens of a rank
   */
  public ScaleOutLayout(int ranks, long token, long batch) {
    this.ranks = ranks;
    chunkBytes =
        ControlPageLayout.align(Math.max(Math.min(CHUNK, batch), token), ControlPageLayout.BYTES);
  }

  /** Counter: progress of {@code rank}, which adds to it. */
  public int progress(int rank) {
    return rank;
  }

  /** Counter: chunks that {@code rank} has released; {@code rank} adds to it. */
  public int credits(int rank) {
    return ranks + rank;
  }

  /** Counter: chunks that have arrived from {@code rank} in the slot of chunk {@code number}. */
  public int arrived(int rank, long number) {
    return 2 * ranks + rank * SLOTS + (int) (number % SLOTS);
  }

  /** Counter: {@link ControlPageLayout#ABORTED} of {@code rank}, which adds to it. */
  public int aborted(int rank) {
    return 2 * ranks + ranks * SLOTS + rank;
  }

  /** Number of counters of a rank. */
  public int counters() {
    return firstInternode() + InternodeLowLatencyLayout.counters(ranks);
  }

  /** First of the counters of {@link InternodeLowLatencyLayout}. */
  public int firstInternode() {
    return 3 * ranks + ranks * SLOTS;
  }

  /** Offset of a chunk in the rings of a rank. */
  public long chunk(int place, long number) {
    return (place * (long) SLOTS + number % SLOTS) * chunkBytes;
  }

  /** Bytes of the rings of a rank, in one direction. */
  public long rings(int partners) {
    return (long) partners * SLOTS * chunkBytes;
  }
}
