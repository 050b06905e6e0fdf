package org.ep4j.observe;

import java.lang.invoke.MethodHandles;
import java.lang.invoke.VarHandle;
import java.util.ArrayList;
import java.util.List;

/**
 * What an engine records on one rank: waits for other ranks and received rows, in windows of {@link
 * #WINDOW} operations, and tokens of local experts. Old windows are overwritten.
 *
 * <p>Operations are collective, so a window covers the same operations on all ranks. One thread at
 * a time writes; any thread takes snapshots, also while an operation hangs. Allocates only in
 * {@link #snapshot}.
 */
public final class ObservationLog {
  /** Operations of a window: dispatches, combines and barriers. */
  public static final int WINDOW = 20;

  /** Windows that a log keeps: those of the last 200 operations. */
  public static final int KEPT = 10;

  /** Memory for windows: the writer fills one while a reader copies the others. */
  private static final int PLACES = KEPT + 2;

  private static final VarHandle OPERATIONS = operations();

  private final TimeoutLog timeouts;
  private final int ranks;
  private final int[] experts;

  /** Nanoseconds waited for each rank in the current window. */
  private final long[] waited;

  /** The same in the last complete windows; window w lies at w % PLACES. */
  private final long[][] windows;

  private final long[] nanos = new long[PLACES];
  private final long[] rows = new long[PLACES];
  private final long[] tokens;

  /**
   * Operations since the last {@link #restart}. Written last, with release order: a reader sees the
   * windows that are complete by then.
   */
  private long operations;

  private long windowRows;
  private long windowBegin;

  /** The longest wait of the current operation, and its rank. */
  private long longest;

  private int longestFor;

  /** Time waited in the current operation, for all ranks. */
  private long operationWaited;

  private long operationRows;
  private long operationBytes;

  /** Nanoseconds waited for each rank in the current operation. */
  private final long[] operationWaits;

  /** The ranks for which it waited, in the order of the first waits. */
  private final int[] awaited;

  private int awaitedRanks;

  /**
   * An empty log.
   *
   * @param experts the experts of this rank, by local number
   */
  public ObservationLog(int rank, int ranks, int[] experts) {
    this.ranks = ranks;
    timeouts = new TimeoutLog(rank);
    this.experts = experts.clone();
    waited = new long[ranks];
    operationWaits = new long[ranks];
    awaited = new int[ranks];
    windows = new long[PLACES][ranks];
    tokens = new long[experts.length];
    restart();
  }

  private static VarHandle operations() {
    try {
      return MethodHandles.lookup().findVarHandle(ObservationLog.class, "operations", long.class);
    } catch (ReflectiveOperationException e) {
      throw new ExceptionInInitializerError(e);
    }
  }

  /** Records that this rank has waited for {@code peer} inside an operation. */
  public void waited(int peer, long waitedNanos) {
    waited[peer] += waitedNanos;
    operationWaited += waitedNanos;
    if (operationWaits[peer] == 0 && waitedNanos > 0) {
      awaited[awaitedRanks++] = peer;
    }
    operationWaits[peer] += waitedNanos;
    if (waitedNanos > longest) {
      longest = waitedNanos;
      longestFor = peer;
    }
  }

  /**
   * Records rows that a dispatch brings to this rank.
   *
   * @param bytes of a row and its scales
   */
  public void received(long received, long bytes) {
    windowRows += received;
    operationRows += received;
    operationBytes += received * bytes;
  }

  /** Records tokens that a dispatch has brought to a local expert. */
  public void expert(int local, long received) {
    tokens[local] += received;
  }

  /** Rows that the current operation has brought. */
  public long operationRows() {
    return operationRows;
  }

  /** Bytes of these rows and their scales. */
  public long operationBytes() {
    return operationBytes;
  }

  /** Nanoseconds that this rank has waited in the current operation. */
  public long operationWaited() {
    return operationWaited;
  }

  /** Nanoseconds of the longest wait of the current operation. */
  public long longestWait() {
    return longest;
  }

  /** The rank of {@link #longestWait}; -1 if there was no wait. */
  public int longestWaitFor() {
    return longestFor;
  }

  /** Number of ranks for which this rank has waited in the current operation. */
  public int awaitedRanks() {
    return awaitedRanks;
  }

  /** The i-th of them. */
  public int awaitedRank(int i) {
    return awaited[i];
  }

  /** Nanoseconds that this rank has waited for {@code peer} in the current operation. */
  public long operationWaitedFor(int peer) {
    return operationWaits[peer];
  }

  /** Ends an operation. */
  public void operationEnded() {
    long ended = operations + 1;
    clearOperation();
    if (ended % WINDOW == 0) {
      long now = System.nanoTime();
      int place = (int) ((ended / WINDOW - 1) % PLACES);
      System.arraycopy(waited, 0, windows[place], 0, ranks);
      nanos[place] = now - windowBegin;
      rows[place] = windowRows;
      clearWindow(now);
    }
    OPERATIONS.setRelease(this, ended);
  }

  /** Forgets all windows: all ranks begin anew together, after a reset. Tokens stay. */
  public void restart() {
    OPERATIONS.setRelease(this, 0L);
    clearOperation();
    clearWindow(System.nanoTime());
  }

  private void clearOperation() {
    operationWaited = 0;
    operationRows = 0;
    operationBytes = 0;
    longest = 0;
    longestFor = -1;
    for (int i = 0; i < awaitedRanks; i++) {
      operationWaits[awaited[i]] = 0;
    }
    awaitedRanks = 0;
  }

  private void clearWindow(long now) {
    for (int r = 0; r < ranks; r++) {
      waited[r] = 0;
    }
    windowRows = 0;
    windowBegin = now;
  }

  /** Timeouts of this rank. */
  public TimeoutLog timeouts() {
    return timeouts;
  }

  /** A copy of the complete windows and of the tokens. Any thread. */
  public RankObservation snapshot() {
    long complete = (long) OPERATIONS.getAcquire(this) / WINDOW;
    List<RankObservation.Window> copies = new ArrayList<>();
    for (long w = Math.max(0, complete - KEPT); w < complete; w++) {
      int place = (int) (w % PLACES);
      copies.add(new RankObservation.Window(w, nanos[place], rows[place], windows[place]));
    }
    VarHandle.acquireFence();
    // The writer may have overwritten the oldest windows meanwhile, or begun anew.
    long now = (long) OPERATIONS.getAcquire(this) / WINDOW;
    copies.removeIf(window -> now < complete || window.number() <= now - PLACES);
    return RankObservation.of(ranks, copies, experts, tokens, timeouts);
  }
}
