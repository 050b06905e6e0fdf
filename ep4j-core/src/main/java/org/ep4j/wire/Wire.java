package org.ep4j.wire;

import java.time.Duration;

/**
 * Connects this rank's regions with those of its peers: one-sided writes, counted where they
 * arrive.
 *
 * <p><b>Lanes.</b> To each peer there are {@link WireConfig#lanes()} lanes, ordered streams of work
 * that know nothing of each other. Within a lane only one order is promised: an {@link Lane#add}
 * takes effect after all that was given to the lane before it. Puts may overtake each other, also
 * on one lane. A receiver therefore counts: it knows how many puts to expect, and waits until the
 * counter that they name has grown by as many.
 *
 * <p><b>Strands.</b> A wire is cut into {@link WireConfig#progressContexts()} strands, each with
 * lanes, connections and queues of its own: the lanes of strand {@code s} are those with {@code
 * index % strands == s}, to all peers.
 *
 * <p><b>Thread rule.</b> A strand and its lanes are used by one thread at a time; handing a strand
 * to another thread needs a happens-before edge. Different strands may be driven by different
 * threads at once, without locks between them. {@link #counters()}, {@link #failedLanes()} and
 * {@link Lane#failure()} may be read by any thread. The collective calls ({@link #allocate}, {@link
 * #expose}) are made by one thread, in the same order on all ranks, and may be made while strands
 * are being driven. {@link #close()} is called when no other thread is inside a call of this wire.
 *
 * <p><b>Progress.</b> Work moves, in both directions, while {@link #poll} is called. A wire may do
 * more on its own, but nobody may rely on it: a rank that waits, for whatever, polls.
 *
 * <p><b>Memory order.</b> Bytes that were written before a put is accepted are what arrives, unless
 * the caller changes them before {@link Lane#flush()} has said that they have left. Who has read a
 * counter ({@link Counters#get}, acquire) sees all bytes of the puts that it counts, and all that
 * preceded an {@link Lane#add} that it contains.
 *
 * <p><b>Errors are values.</b> What goes wrong between ranks fails lanes, see {@link
 * Lane#failure()}; the other lanes go on, and nothing is thrown. Thrown are only mistakes of the
 * caller, before anything is sent: {@link org.ep4j.InvalidArgumentException} for arguments out of
 * range, {@link IllegalStateException} for use after close.
 *
 * <p>Implementations allocate nothing in {@link #poll} and in the calls of {@link Lane}, once warm.
 */
public interface Wire extends AutoCloseable {
  /** Name of the kind of wire, as in {@link WireConfig#wire()}: {@code tcp}, {@code shm}. */
  String name();

  /** This rank. */
  int rank();

  /** Number of ranks. */
  int size();

  /** What it was opened with. */
  WireConfig config();

  /**
   * A lane to a peer; always the same object.
   *
   * @param peer another rank
   * @param index from 0 to {@code lanes - 1}
   * @throws org.ep4j.InvalidArgumentException if there is no such lane; there is none to this rank
   */
  Lane lane(int peer, int index);

  /**
   * Collective: new zeroed memory on every rank that its peers can put into. Every wire can do
   * this, and on some it is the cheaper kind. The memory belongs to the region.
   *
   * @param bytes how many on this rank; ranks may differ, 0 is allowed
   * @param timeout how long to wait for the others
   * @throws WireException if a rank cannot provide it; names the rank, on all ranks
   */
  Region allocate(long bytes, Duration timeout);

  /**
   * Collective: memory of the caller that its peers can put into. The caller keeps it until the
   * region is closed.
   *
   * @param memory the memory; ranks may differ in size and kind
   * @param timeout how long to wait for the others
   * @throws WireException if a rank's memory cannot be reached, see {@link #exposes}; names the
   *     rank, on all ranks
   */
  Region expose(WireMemory memory, Duration timeout);

  /**
   * Memory of the caller as a source of puts; only this rank knows of it. The caller keeps it until
   * the region is closed.
   *
   * @throws WireException if this wire cannot read such memory: stage it through host memory
   */
  Region register(WireMemory memory);

  /**
   * Whether {@link #register} only writes down where host memory lies, so that memory may be
   * registered for a single use. Elsewhere it is pinned, page by page.
   */
  default boolean registersFreely() {
    return false;
  }

  /**
   * Whether memory of a device is to be given to it, to {@link #register} and {@link #expose}:
   * network cards then read and write it where it is. The same on all ranks. Where not, what a
   * device sends and receives goes through host memory.
   */
  default boolean carriesDeviceMemory() {
    return false;
  }

  /** Whether {@link #expose} takes such memory. {@link #register} takes any host memory. */
  boolean exposes(WireMemory memory);

  /** The words of this rank that its peers count up. */
  Counters counters();

  /**
   * Moves the work of a strand along, in both directions; never blocks.
   *
   * @param progressContext from 0 to {@code strands - 1}
   * @return how much was done, in no particular unit; 0 if there was nothing to do
   */
  int poll(int progressContext);

  /**
   * Number of lanes that have failed so far. Cheap: made for loops that wait for a counter, which
   * look for the failed lane when the number has changed.
   */
  int failedLanes();

  /**
   * Whether nothing of a peer can reach this rank's memory and counters any more once all lanes to
   * it have failed here, whatever its process does: one that was only stopped may go on. So it is
   * where this side takes in what comes, or ends the connection for both. Where peers write without
   * that, as into memory that they map, what they do has no end that can be known here.
   */
  default boolean severs() {
    return false;
  }

  /**
   * Closes regions, lanes and connections of this rank; a second call does nothing. Not collective:
   * the peers' lanes to this rank fail with {@link LaneFailure.Cause#CLOSED}. Work that was handed
   * over ({@link Lane#flush()}) before still arrives; other work may be lost.
   */
  @Override
  void close();
}
