package org.ep4j.engine.host.lowlatency;

import java.lang.System.Logger.Level;
import java.lang.invoke.VarHandle;
import org.ep4j.engine.Interrupts;
import org.ep4j.engine.Limits;
import org.ep4j.engine.host.context.CallerTensors;
import org.ep4j.engine.host.context.HostContext;
import org.ep4j.engine.host.context.PeerWait;
import org.ep4j.engine.host.internode.InternodeLowLatency;
import org.ep4j.engine.host.layout.LowLatencyLayout;
import org.ep4j.engine.world.Rails;
import org.ep4j.error.ConfigurationMismatchException;
import org.ep4j.error.ErrorCode;
import org.ep4j.error.PeerTimeoutException;
import org.ep4j.memory.NativeMemory;
import org.ep4j.observe.MaskEvent;
import org.ep4j.tensor.Tensor;
import org.jspecify.annotations.Nullable;

/**
 * The words of {@link LowLatencyLayout} on this rank: writes its own words, waits for those of the
 * peers, and decides what happens to a peer that does not respond.
 */
final class LowLatencySignals {
  private static final System.Logger LOG = System.getLogger("org.ep4j.host");
  private static final String REJOINED = "has rejoined";

  private final HostContext context;
  private final LowLatencyLayout layout;
  private final LowLatencyPaths paths;
  private final int rank;
  private final int ranks;
  private final boolean[] masked;
  private final boolean masking;

  /** This rank's mask words. */
  private final long[] words;

  /** The peers' mask words of this rank at the last cleanMask. */
  private final long[] known;

  /** The sources of the operation that this rank receives. */
  private final PeerWait.Arrivals arrivals;

  /** The operation of {@link #arrivals}. */
  private long awaited;

  /** The same words when {@link #highestStartedWithout} last read them. */
  private final long[] seen;

  LowLatencySignals(HostContext context, LowLatencyLayout layout, LowLatencyPaths paths) {
    this.context = context;
    this.layout = layout;
    this.paths = paths;
    this.rank = context.rank;
    this.ranks = context.ranks;
    this.masked = context.masked;
    this.masking = Limits.masking(context.config);
    this.words = new long[ranks];
    this.known = new long[ranks];
    this.seen = new long[ranks];
    this.arrivals = new PeerWait.Arrivals(context.log, ranks);
  }

  /** Continues in new memory, whose words are all 0. */
  void renewed() {
    for (int peer = 0; peer < ranks; peer++) {
      NativeMemory.putLongRelease(own() + layout.mask(peer), words[peer]);
    }
  }

  /** Continues with a new connection, whose words are all 0. */
  void connected() {
    for (int peer = 0; peer < ranks; peer++) {
      if (!context.isIntranode(peer)) {
        known[peer] = 0;
      }
    }
  }

  /**
   * Counts a rank that rejoins: discards all data from its old process, including numbers that this
   * rank has not reached.
   */
  void takeIn(int peer) {
    for (int parity = 0; parity < 2; parity++) {
      NativeMemory.putLongRelease(own() + layout.header(parity, peer) + LowLatencyLayout.NUMBER, 0);
    }
    if (context.isIntranode(peer)) {
      admit(peer, REJOINED);
    } else if (masked[peer]) {
      MaskEvent.record(rank, peer, false, REJOINED);
      // Words of other nodes start at 0 with the connection.
      masked[peer] = false;
      words[peer]++;
    }
  }

  /** Called when this rank has missed no operation: from now on, counts the ranks that mask it. */
  void lookAtMasks() {
    for (int peer = 0; peer < ranks; peer++) {
      if (!context.excluded[peer]) {
        known[peer] = NativeMemory.getLongAcquire(paths.mask(peer));
      }
    }
  }

  /** Publishes that operation {@code number} begins on this rank. */
  void start(long number) {
    NativeMemory.putLongRelease(own() + LowLatencyLayout.STARTED, number);
    InternodeLowLatency internode = paths.internode();
    if (internode != null) {
      internode.start(number, masked);
    }
  }

  /** Publishes that this rank has received all operations up to {@code number}. */
  void received(long number) {
    NativeMemory.putLongRelease(own() + LowLatencyLayout.RECEIVED, number);
    InternodeLowLatency internode = paths.internode();
    if (internode != null) {
      internode.receive(number, masked);
    }
  }

  /** Waits until all data for other nodes is sent, or masks the rank that does not accept it. */
  void awaitSent(long number, String operation) {
    if (!masking) {
      context.awaitSent(masked, operation, number);
      return;
    }
    long begin = PeerWait.begin();
    int late = context.trySend(masked);
    while (late != Rails.NONE) {
      if (Interrupts.pending()) {
        throw context.wait.failure(0, 0, late, operation, "unsent bytes", number, begin);
      }
      maskSilent(late, number, operation);
      late = context.trySend(masked);
    }
  }

  /** Waits until every counted peer has received operation {@code number}. */
  void awaitReceived(long number, long current, String operation) {
    if (number <= 0) {
      return;
    }
    for (int i = 1; i < ranks; i++) {
      int peer = (rank + i) % ranks;
      if (!masked[peer]) {
        reached(
            paths.received(peer),
            number,
            peer,
            null,
            operation,
            "space for the next operation",
            current);
      }
    }
  }

  /**
   * Sends the header of an operation with release order: all earlier writes become visible with it.
   *
   * @param entries in the list of the operation
   * @param rowBytes bytes of consecutive rows from {@link LowLatencyPaths#rowsTo}
   */
  void send(
      int destination,
      long number,
      long kind,
      long count,
      long place,
      long dispatch,
      int entries,
      long rowBytes) {
    long header = paths.headerTo(destination, number);
    NativeMemory.putLong(header + LowLatencyLayout.KIND, kind);
    NativeMemory.putLong(header + LowLatencyLayout.COUNT, count);
    NativeMemory.putLong(header + LowLatencyLayout.PLACE, place);
    NativeMemory.putLong(header + LowLatencyLayout.DISPATCH, dispatch);
    NativeMemory.putLong(header + LowLatencyLayout.MASK, words[destination]);
    InternodeLowLatency internode = paths.internodeSource(destination);
    if (internode == null) {
      NativeMemory.putLongRelease(header + LowLatencyLayout.NUMBER, number);
    } else {
      internode.send(destination, number, (long) entries * Integer.BYTES, rowBytes);
    }
  }

  /**
   * Waits for the header of {@code source}.
   *
   * @return address of the header, or 0 if the source does not count (any more)
   */
  long await(int source, LowLatencyOperation op) {
    if (masked[source]) {
      return 0;
    }
    long number = op.number();
    long word = paths.number(source, number);
    Tensor waitStats = op.waitStats;
    long start = waitStats == null ? 0 : System.nanoTime();
    if (NativeMemory.getLongAcquire(word) < number && awaited != number) {
      awaited = number;
      expect(source, op);
    }
    boolean there = reached(word, number, source, arrivals, op.operation, "rows", number);
    if (waitStats != null) {
      CallerTensors.addLong(waitStats, source, System.nanoTime() - start);
    }
    if (!there) {
      return 0;
    }
    requireInStep(source, number, NativeMemory.getLong(word));
    return paths.from(source) + layout.header(number, source);
  }

  /** From now on looks at all sources that an operation still awaits. */
  private void expect(int first, LowLatencyOperation op) {
    arrivals.begin(op.number());
    for (int source = first; source < ranks; source++) {
      if (!masked[source] && op.awaits(source)) {
        arrivals.add(source, paths.number(source, op.number()));
      }
    }
  }

  /**
   * A source in step cannot send the operation after the next before this rank has received this
   * one.
   */
  private void requireInStep(int source, long number, long seen) {
    if (seen != number) {
      throw new ConfigurationMismatchException(
          ErrorCode.OPERATIONS_MISSED,
          "rank "
              + source
              + " is at low-latency operation "
              + seen
              + ", rank "
              + rank
              + " at "
              + number
              + ": it has been masked and has missed operations; call cleanMask() on all ranks"
              + " while none is inside an operation, or reset()");
    }
  }

  /** Requires that the header of {@code source} has the values that this rank expects. */
  void requireSame(int source, long number, long expected, long seen) {
    if (expected != seen) {
      throw new ConfigurationMismatchException(
          ErrorCode.OPERATIONS_DIFFER,
          "rank "
              + source
              + " calls a low-latency "
              + LowLatencyKind.text(seen)
              + " as operation "
              + number
              + " where rank "
              + rank
              + " calls a "
              + LowLatencyKind.text(expected)
              + "; all ranks must call the same operations in the same order: call reset() on all"
              + " ranks to continue");
    }
  }

  /** Requires that {@code source} returns the rows of the dispatch that this rank expects. */
  void requireSameDispatch(int source, long number, long expected, long seen) {
    if (expected != seen) {
      throw new ConfigurationMismatchException(
          ErrorCode.HANDLES_DIFFER,
          "rank "
              + source
              + " combines the rows of low-latency dispatch "
              + seen
              + " in operation "
              + number
              + " where rank "
              + rank
              + " combines those of dispatch "
              + expected
              + "; all ranks must use the handle of the same dispatch: call reset() on all"
              + " ranks");
    }
  }

  /**
   * Whether {@code source} still holds the rows that this rank has just read from its memory;
   * called after the last read. If not (the source has masked this rank, or has aborted), the
   * source is handled like a rank that does not respond. Rows from another node were sent, so they
   * are always valid.
   */
  boolean stillHolds(int source, long number, String operation) {
    if (!context.isIntranode(source)) {
      return true;
    }
    long header = own() + layout.header(number, source);
    VarHandle.acquireFence();
    long now = NativeMemory.getLong(context.lowLatency(source) + layout.mask(rank));
    long sent = NativeMemory.getLong(header + LowLatencyLayout.MASK);
    boolean same = now == sent;
    if (same && !context.aborted(source)) {
      return true;
    }
    if (same && !masking) {
      throw context.wait.failure(sent, now, source, operation, "rows", number, PeerWait.begin());
    }
    leaveOut(source, number, operation, same ? "has aborted" : "has masked this rank", sent, now);
    return false;
  }

  /**
   * Handles {@code source} like a rank that does not respond: it responds, but had masked this rank
   * when the rows to return arrived, and has none.
   */
  void hasNoRows(int source, long number, String operation, long sent, long held) {
    leaveOut(source, number, operation, "had masked this rank", sent, held);
  }

  private void leaveOut(
      int source, long number, String operation, String reason, long expected, long seen) {
    if (!masking) {
      throw new PeerTimeoutException(
          operation, "rows (the peer " + reason + ")", number, source, expected, seen, 0, "");
    }
    mask(source, reason);
    LOG.log(
        Level.WARNING,
        "{0} {1} on rank {2}: rank {3} {4}, so this rank masks it",
        operation,
        number,
        rank,
        source,
        reason);
  }

  /** Stops counting {@code peer}, for a reason to record. */
  void mask(int peer, String reason) {
    if (!masked[peer]) {
      masked[peer] = true;
      MaskEvent.record(rank, peer, true, reason);
      count(peer);
      // No later store of rows may become visible before the word.
      VarHandle.releaseFence();
    }
  }

  /** Counts {@code peer} again, for a reason to record. */
  void admit(int peer, String reason) {
    if (masked[peer]) {
      masked[peer] = false;
      MaskEvent.record(rank, peer, false, reason);
      count(peer);
    }
  }

  private void count(int peer) {
    words[peer]++;
    NativeMemory.putLongRelease(own() + layout.mask(peer), words[peer]);
    InternodeLowLatency internode = paths.internodeSource(peer);
    if (internode != null) {
      internode.countMask(peer, masked[peer]);
    }
  }

  /** The highest operation number that a rank which masks this one has begun. */
  long highestStartedWithout() {
    long highest = 0;
    for (int peer = 0; peer < ranks; peer++) {
      seen[peer] =
          context.excluded[peer] ? known[peer] : NativeMemory.getLongAcquire(paths.mask(peer));
      if (seen[peer] != known[peer]) {
        highest = Math.max(highest, started(peer));
      }
    }
    return highest;
  }

  /** Records that this rank continues from that number. */
  void caughtUp() {
    System.arraycopy(seen, 0, known, 0, ranks);
  }

  private long started(int peer) {
    return NativeMemory.getLongAcquire(paths.started(peer));
  }

  private boolean reached(
      long address,
      long expected,
      int peer,
      PeerWait.@Nullable Arrivals awaitedRanks,
      String operation,
      String phase,
      long number) {
    if (!masking) {
      context.wait.await(address, expected, peer, awaitedRanks, operation, phase, number);
      return true;
    }
    long begin = PeerWait.begin();
    if (context.wait.reaches(address, expected, peer, awaitedRanks)) {
      return true;
    }
    if (Interrupts.pending()) {
      // The peer may be on time: an interrupt masks no rank.
      long seenNow = NativeMemory.getLongAcquire(address);
      throw context.wait.failure(expected, seenNow, peer, operation, phase, number, begin);
    }
    maskSilent(peer, number, operation);
    return false;
  }

  private void maskSilent(int peer, long number, String operation) {
    String condition = condition(peer);
    mask(peer, condition);
    LOG.log(
        hasEnded(peer) ? Level.INFO : Level.WARNING,
        "{0} {1}: rank {2} {3}: masked from now on",
        operation,
        number,
        peer,
        condition);
  }

  private String condition(int peer) {
    if (!context.members.isAlive(peer)) {
      return context.members.departureOf(peer);
    }
    if (context.aborted(peer)) {
      return "is unusable until reset()";
    }
    return context.closed(peer) ? "has closed its buffer" : "is silent";
  }

  /** Whether a rank takes part in no further operation because its program has ended it. */
  private boolean hasEnded(int peer) {
    return context.members.isAlive(peer)
        ? context.closed(peer) && !context.aborted(peer)
        : context.members.hasLeft(peer);
  }

  /** Whether a rank takes part in no further operation until it rejoins. */
  boolean isGone(int peer) {
    return !context.members.isAlive(peer) || hasEnded(peer);
  }

  private long own() {
    return context.lowLatency(rank);
  }
}
