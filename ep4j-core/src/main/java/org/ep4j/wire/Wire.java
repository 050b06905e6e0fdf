package org.ep4j.wire;

import java.time.Duration;
import java.util.List;
import org.ep4j.WirePath;

/**
 * Connects regions of this rank with those of its peers: one-sided writes, counted at the receiver.
 *
 * <p><b>Lanes.</b> To each peer there are {@link WireConfig#lanes()} lanes, which are independent
 * ordered streams of work. Within a lane only one order is guaranteed: an {@link Lane#add} takes
 * effect after all earlier work of the lane. Puts may overtake each other, also on one lane.
 * Therefore a receiver counts: it knows the number of expected puts and waits until their counter
 * has grown by that number.
 *
 * <p><b>Progress contexts.</b> A wire has {@link WireConfig#progressContexts()} progress contexts,
 * each with its own lanes, connections and queues: progress context {@code c} has the lanes with
 * {@code index % progressContexts == c}, to all peers.
 *
 * <p><b>Thread rule.</b> One thread at a time uses a progress context and its lanes; a handover to
 * another thread needs a happens-before edge. Different threads may drive different progress
 * contexts at the same time, without locks. Any thread may read {@link #counters()}, {@link
 * #failedLanes()} and {@link Lane#failure()}. One thread makes the collective calls ({@link
 * #allocate}, {@link #expose}), in the same order on all ranks; progress contexts may be driven
 * meanwhile. Call {@link #close()} when no other thread is inside a call of this wire.
 *
 * <p><b>Progress.</b> Work moves, in both directions, while {@link #poll} is called. A wire may do
 * more on its own, but callers must not rely on it: every waiting rank polls.
 *
 * <p><b>Memory order.</b> A put transfers the bytes that were written before its acceptance, unless
 * the caller changes them before {@link Lane#flush()} returns true. A reader of a counter ({@link
 * Counters#get}, acquire) sees all bytes of the puts that the value counts, and all work before an
 * {@link Lane#add} that it contains.
 *
 * <p><b>Errors are values.</b> Failures between ranks fail lanes, see {@link Lane#failure()}; the
 * other lanes continue, and nothing is thrown. A lane that fails on one rank fails on its peer too,
 * which the group notifies: over a path that is cut, a rank that only waits would notice nothing.
 * Only caller mistakes throw, before anything is sent: {@link
 * org.ep4j.error.InvalidArgumentException} for arguments out of range, {@link
 * org.ep4j.error.IllegalUseException} for use after close.
 *
 * <p>A warm implementation allocates nothing in {@link #poll} and in the calls of {@link Lane}.
 */
public interface Wire extends AutoCloseable {
  /** Name of the kind of wire, as in {@link WireConfig#wire()}: {@code tcp}, {@code shm}. */
  String name();

  /** This rank. */
  int rank();

  /** Number of ranks. */
  int size();

  /** The configuration of the wire. */
  WireConfig config();

  /**
   * A lane to a peer; always the same object.
   *
   * @param peer another rank
   * @param index from 0 to {@code lanes - 1}
   * @throws org.ep4j.error.InvalidArgumentException if there is no such lane; this rank has no lane
   *     to itself
   */
  Lane lane(int peer, int index);

  /**
   * Collective: new zeroed memory on every rank that its peers can put into. Every wire supports
   * it, and some wires make it cheaper than {@link #expose}. The region owns the memory.
   *
   * @param bytes number of bytes on this rank; ranks may differ, 0 is allowed
   * @param timeout maximum wait for the other ranks
   * @throws WireException if a rank cannot provide the memory; names the rank, on all ranks
   */
  Region allocate(long bytes, Duration timeout);

  /**
   * Collective: memory of the caller that its peers can put into. The caller keeps it alive until
   * the region is closed.
   *
   * @param memory the memory; ranks may differ in size and kind
   * @param timeout maximum wait for the other ranks
   * @throws WireException if the wire cannot reach a rank's memory, see {@link #exposes}; names the
   *     rank, on all ranks
   */
  Region expose(WireMemory memory, Duration timeout);

  /**
   * Memory of the caller as a source of puts, known to this rank only. The caller keeps it alive
   * until the region is closed.
   *
   * @throws WireException if this wire cannot read such memory: copy it to host memory first
   */
  Region register(WireMemory memory);

  /**
   * Whether {@link #register} of host memory costs nothing but a record, so that memory may be
   * registered for a single use. Other wires pin the memory page by page.
   */
  default boolean registersFreely() {
    return false;
  }

  /**
   * Whether {@link #register} and {@link #expose} should receive device memory, which network cards
   * then read and write directly. The same on all ranks. If false, device data goes through host
   * memory.
   */
  default boolean carriesDeviceMemory() {
    return false;
  }

  /** Whether {@link #expose} accepts such memory. {@link #register} accepts any host memory. */
  boolean exposes(WireMemory memory);

  /** The counters of this rank, to which its peers add. */
  Counters counters();

  /**
   * Advances the work of a progress context, in both directions; never blocks.
   *
   * @param progressContext from 0 to {@code progressContexts - 1}
   * @return amount of work done, without a unit; 0 if there was nothing to do
   */
  int poll(int progressContext);

  /**
   * Number of failed lanes. Cheap: a loop that waits for a counter looks for the failed lane only
   * when the number has changed.
   */
  int failedLanes();

  /**
   * Paths that count the bytes of puts, see {@link WirePath}; empty for wires that do not count.
   * Any thread; bytes of puts that run at the same time may be missing.
   */
  default List<WirePath> paths() {
    return List.of();
  }

  /**
   * Whether a peer can no longer write this rank's memory and counters after all lanes to it have
   * failed here, whatever its process does (a stopped process may resume). True if this side
   * receives the data itself or ends the connection for both sides. False if peers write directly,
   * for example into mapped memory: this rank cannot know when they stop.
   */
  default boolean severs() {
    return false;
  }

  /**
   * Closes regions, lanes and connections of this rank; a second call has no effect. Not
   * collective: the peers' lanes to this rank fail with {@link LaneFailure.Cause#CLOSED}. Work that
   * has left ({@link Lane#flush()}) still arrives; other work may be lost.
   */
  @Override
  void close();
}
