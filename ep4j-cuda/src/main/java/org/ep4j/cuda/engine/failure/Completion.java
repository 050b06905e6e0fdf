package org.ep4j.cuda.engine.failure;

import java.lang.foreign.MemorySegment;
import java.time.Duration;
import java.util.concurrent.TimeUnit;
import org.ep4j.config.BufferConfig;
import org.ep4j.cuda.driver.CudaStream;
import org.ep4j.cuda.driver.calls.CudaException;
import org.ep4j.cuda.internode.InternodeConnection;
import org.ep4j.engine.Interrupts;
import org.ep4j.engine.Limits;
import org.ep4j.error.Ep4jException;
import org.ep4j.error.ErrorCode;
import org.ep4j.error.IllegalUseException;
import org.ep4j.group.GroupException;
import org.ep4j.memory.NativeMemory;
import org.jspecify.annotations.Nullable;

/**
 * How the host learns about the end and the failure of operations. Each operation has a ticket;
 * operations end in the order of their tickets. Any thread may wait.
 *
 * <p>The parameter {@code operation} names an operation in errors by its text, which is made only
 * then.
 *
 * <p>The kernel enforces the deadline of an operation: the host waits a little longer, in case the
 * GPU never starts the kernel.
 */
public final class Completion {
  private static final Duration GRACE = Duration.ofSeconds(20);

  /** Further wait for a GPU that has already missed a deadline. */
  private static final Duration ONCE_MORE = Duration.ofSeconds(2);

  /** Further wait for kernels that an interrupt has aborted. */
  private static final long ABORTED_NANOS = Duration.ofMillis(500).toNanos();

  private static final int SPINS = 4096;

  /** Interval at which a waiting thread queries the driver for a GPU failure. */
  private static final long ASK_NANOS = Duration.ofSeconds(1).toNanos();

  /** Interval at which a waiting thread looks for ranks that have closed their buffer. */
  private static final long CLOSED_NANOS = Duration.ofMillis(5).toNanos();

  private final HostWords words;
  private final CudaStream stream;
  private final int ranks;
  private final BufferConfig config;

  /** How long the host waits for an operation. */
  private final Duration hostTimeout;

  private final FailureDiagnosis diagnosis;
  private final AbortNotices notices;

  /** Set before the first operation. */
  private @Nullable StaleRankFence fence;

  private long ticket;

  /** Ticket of the last operation that runs. Written by the thread in the buffer. */
  private volatile long lastRunning;

  private long lastBefore;

  /** Whether the last operation masks dead peers itself. Written by the thread in the buffer. */
  private volatile boolean masking;

  /** Whether a wait ended before the GPU's work. */
  private volatile boolean stuck;

  /**
   * The error that broke the buffer; null if usable. Operations read it without the lock. It is
   * written with the lock held, which diagnosis and reset take only after a failure: a waiter that
   * has seen the report of a failed operation never breaks the buffer after its reset.
   */
  private volatile @Nullable RuntimeException failure;

  public Completion(
      HostWords words,
      CudaStream stream,
      int ranks,
      BufferConfig config,
      FailureDiagnosis diagnosis,
      AbortNotices notices) {
    this.words = words;
    this.stream = stream;
    this.ranks = ranks;
    this.config = config;
    hostTimeout = hostTimeout(config);
    this.diagnosis = diagnosis;
    this.notices = notices;
  }

  /**
   * With masking, a kernel that has waited for a rank may wait once more at its end: for memory
   * that no rank writes into, or for room for commands to the proxy.
   */
  static Duration hostTimeout(BufferConfig config) {
    return config.timeout().multipliedBy(Limits.masking(config) ? 2 : 1).plus(GRACE);
  }

  /**
   * A failure of {@code connection} also aborts waits; kernels learn about dead ranks when the
   * fence has excluded these ranks.
   */
  public void attach(@Nullable InternodeConnection connection, StaleRankFence rankFence) {
    fence = rankFence;
    diagnosis.attach(connection, rankFence);
  }

  /**
   * The ticket of the next operation; called only by the thread in the buffer.
   *
   * @param captured whether the operation runs only when a graph is replayed
   */
  public long next(boolean captured) {
    ticket++;
    masking = false;
    if (!captured) {
      lastBefore = lastRunning;
      lastRunning = ticket;
    }
    return ticket;
  }

  /** Same as {@link #next} for an operation that masks dead peers if the buffer masks. */
  public long nextMasking(boolean captured) {
    long next = next(captured);
    masking = Limits.masking(config);
    return next;
  }

  /** Returns the last ticket: its operation was not enqueued. */
  public void withdraw(long last) {
    if (lastRunning == last) {
      lastRunning = lastBefore;
    }
  }

  /** Waits until all enqueued operations have ended or failed. */
  public void awaitAll() {
    awaitWord(null, 0, lastRunning, "the last operation", Long.MAX_VALUE);
  }

  /**
   * Same as {@link #awaitAll} when the buffer closes: returns whether they ended instead of
   * throwing.
   */
  public boolean endsInTime() {
    Duration limit = stuck ? ONCE_MORE : hostTimeout;
    try {
      return awaitWord(
          null, 0, lastRunning, "the last operation", TimeUnit.NANOSECONDS.convert(limit));
    } catch (Ep4jException e) {
      return reached(lastRunning);
    }
  }

  public boolean reached(long wanted) {
    return words.completed() >= wanted;
  }

  /**
   * Waits until an operation has ended; throws its error. An interrupt of the thread aborts the
   * operation, like all others of the buffer on this GPU, and the other ranks get the reason.
   */
  public void await(long wanted, Object operation) {
    awaitWord(null, 0, wanted, operation, Long.MAX_VALUE);
    check(operation);
  }

  /**
   * The wait of an event: an interrupt of the thread ends the wait, and the operation continues.
   * Returns whether it has ended in time.
   */
  public boolean awaitEvent(long wanted, Object operation, Duration limit) {
    if (!awaitWord(null, 0, wanted, operation, TimeUnit.NANOSECONDS.convert(limit), true)) {
      return false;
    }
    check(operation);
    return true;
  }

  /** Waits for a ticket that a kernel writes to a word in page-locked memory. */
  public void awaitAt(MemorySegment memory, long offset, long wanted, Object operation) {
    awaitWord(memory, offset, wanted, operation, Long.MAX_VALUE);
    check(operation);
  }

  private boolean awaitWord(
      @Nullable MemorySegment memory, long offset, long wanted, Object operation, long limit) {
    return awaitWord(memory, offset, wanted, operation, limit, false);
  }

  /**
   * Null memory means the end of the operation. Returns whether the ticket was reached in time.
   *
   * @param event whether an interrupt leaves the operation alone
   */
  private boolean awaitWord(
      @Nullable MemorySegment memory,
      long offset,
      long wanted,
      Object operation,
      long limit,
      boolean event) {
    long start = 0;
    long asked = 0;
    long looked = 0;
    for (int spin = 1; !done(memory, offset, wanted); spin++) {
      if (spin % SPINS != 0) {
        Thread.onSpinWait();
        continue;
      }
      long now = System.nanoTime();
      if (start == 0) {
        start = now;
        asked = now;
        looked = now;
      }
      if (Interrupts.pending()) {
        throw event
            ? new Ep4jException(
                ErrorCode.EVENT_WAIT_INTERRUPTED, "interrupted while waiting for " + operation)
            : interrupted(wanted, operation, start);
      }
      if (now - looked > CLOSED_NANOS) {
        looked = now;
        diagnosis.noticeClosed(now);
      }
      if (now - asked > ASK_NANOS) {
        asked = now;
        requireWorkingGpu(operation);
      }
      if (now - start > limit) {
        return false;
      }
      checkPeers();
      if (now - start > hostTimeout.toNanos()) {
        stuck = true;
        throw breakWith(
            new Ep4jException(
                ErrorCode.GPU_STUCK,
                operation
                    + ": the GPU has not ended it after "
                    + (now - start) / 1_000_000
                    + " ms: check the work that its stream waits for, then call reset() on all"
                    + " ranks"));
      }
      Thread.yield();
    }
    return true;
  }

  /** Aborts all kernels that wait, and gives them a short time to end; returns the error. */
  private RuntimeException interrupted(long wanted, Object operation, long start) {
    words.abort();
    long begin = System.nanoTime();
    // The notice to the other ranks says whether any kernel of this rank still runs.
    while (!reached(lastRunning) && System.nanoTime() - begin < ABORTED_NANOS) {
      Thread.yield();
    }
    stuck |= !reached(wanted);
    return breakWith(
        Interrupts.error(
            operation.toString(), "end", (begin - start) / 1_000_000, "work on the GPU"));
  }

  /** A kernel that made the GPU fail never ends; the driver reports the failure on any stream. */
  private void requireWorkingGpu(Object operation) {
    try {
      stream.query();
    } catch (CudaException e) {
      stuck = true;
      throw breakWith(
          new Ep4jException(
              ErrorCode.GPU_FAILED,
              operation
                  + ": the GPU has failed, and all work of this process on it is lost: "
                  + e.getMessage(),
              e));
    }
  }

  private boolean done(@Nullable MemorySegment memory, long offset, long wanted) {
    return memory == null
        ? words.completed() >= wanted
        // An aborted operation ends without writing its counts.
        : NativeMemory.getLongAcquire(memory, offset) == wanted || words.completed() >= wanted;
  }

  /** Aborts waits for dead and aborted ranks, and waits for ranks that have fenced this rank. */
  private void checkPeers() {
    if (diagnosis.isCutOff()
        || diagnosis.isConsideredLost()
        || (!masking && (diagnosis.lostPeer() >= 0 || notices.any()))) {
      words.abort();
    }
    for (int r = 0; masking && fence != null && r < ranks; r++) {
      // Kernels reassign the areas of a rank as soon as they know that it is dead.
      if (diagnosis.isLost(r)) {
        fence.fenceStep(r);
      }
    }
  }

  /** Throws the error that a kernel reported. */
  public void check(Object operation) {
    requireUnbroken();
    long state = words.state();
    if (state == 0) {
      return;
    }
    if (state == HostWords.STATE_TIMEOUT) {
      // Without the lock: reset and close do not check.
      diagnosis.awaitLossNotice();
    }
    throwReported(operation);
  }

  private void requireUnbroken() {
    RuntimeException known = failure;
    if (known != null) {
      throw known;
    }
  }

  /** Another waiter may have thrown and cleared the report meanwhile; then nothing is thrown. */
  private synchronized void throwReported(Object operation) {
    requireUnbroken();
    long state = words.state();
    if (state == 0) {
      return;
    }
    if (state == HostWords.STATE_TIMEOUT) {
      throw breakWith(diagnosis.ofTimeout(operation.toString()));
    }
    if (state == HostWords.STATE_OTHER_KIND) {
      throw breakWith(diagnosis.ofOtherKind());
    }
    RuntimeException bad = diagnosis.ofBadChoice(state);
    words.clearRecord();
    throw bad;
  }

  /** Refuses to wait for ranks of which one takes part in no operation until the next reset. */
  public void requireNoneAborted() {
    if (notices.any()) {
      throw diagnosis.aborted("barrier");
    }
  }

  /** The error for ranks that are missing in a barrier of the survivors. */
  public RuntimeException missing(GroupException problem, long waitedMillis) {
    return diagnosis.missing(problem, waitedMillis);
  }

  /** Only reset and close are allowed from now on; notifies the other ranks. */
  private RuntimeException breakWith(RuntimeException reason) {
    synchronized (this) {
      failure = reason;
    }
    notices.publish(reason, reached(lastRunning));
    return reason;
  }

  /** Refuses calls that access peer memory after the survivors have fenced this rank. */
  public void requireNotFenced(String call) {
    if (diagnosis.fencedBy() != StaleRankFence.NO_RANK) {
      throw outside(call);
    }
  }

  /** The error for a rank that the survivors have fenced or are about to fence. */
  public synchronized RuntimeException outside(String call) {
    RuntimeException outside = diagnosis.outside(call);
    failure = outside;
    return outside;
  }

  /** Refuses to start an operation on a broken buffer. */
  public void requireUsable() {
    RuntimeException known = failure;
    if (known != null) {
      IllegalUseException refused =
          new IllegalUseException(
              ErrorCode.RESET_NEEDED,
              "the buffer needs reset() on all live ranks: " + known.getMessage());
      refused.initCause(known);
      throw refused;
    }
  }

  /** Marks the buffer broken: only reset and close are allowed. Notifies the other ranks. */
  public void needsReset(String reason) {
    Ep4jException needed = new Ep4jException(ErrorCode.RESET_NEEDED, reason);
    synchronized (this) {
      failure = failure == null ? needed : failure;
    }
    notices.publish(needed, reached(lastRunning));
  }

  /** Whether a rank that takes part in operations has closed its buffer. */
  public boolean hasClosed(int rank) {
    return diagnosis.hasClosed(rank);
  }

  /** Whether a rank has notified this one that it takes part in no operation until a reset. */
  public boolean hasAborted(int rank) {
    return notices.hasAborted(rank);
  }

  public boolean isExcluded(int rank) {
    return diagnosis.isExcluded(rank);
  }

  /** The ranks of {@link #isExcluded}. */
  public boolean[] excluded() {
    return diagnosis.excluded();
  }

  /**
   * Kernels wait again after a recovery that has changed nothing, unless an operation has failed:
   * what it has reported stays until the next recovery.
   */
  public synchronized void letKernelsWait() {
    if (failure == null && words.state() == 0) {
      clearWords();
    }
  }

  /** Kernels wait again, except for ranks that have aborted since the ranks started. */
  private void clearWords() {
    words.reset();
    notices.endWaitsAgain();
  }

  /** Clears the failure for the survivors. */
  public synchronized void reset(boolean[] gone) {
    diagnosis.exclude(gone);
    failure = null;
    stuck = false;
    clearWords();
  }
}
