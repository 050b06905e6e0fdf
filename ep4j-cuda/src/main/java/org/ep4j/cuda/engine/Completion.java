package org.ep4j.cuda.engine;

import java.lang.foreign.MemorySegment;
import java.time.Duration;
import org.ep4j.BufferConfig;
import org.ep4j.Ep4jException;
import org.ep4j.cuda.driver.CudaException;
import org.ep4j.cuda.driver.CudaStream;
import org.ep4j.cuda.far.InternodeConnection;
import org.ep4j.group.GroupException;
import org.ep4j.memory.NativeMemory;
import org.jspecify.annotations.Nullable;

/**
 * How the host learns that operations have ended, and how badly. Each operation has a ticket; they
 * end in the order of their tickets. Any thread may wait.
 *
 * <p>The deadline of an operation is the kernel's: the host waits a little longer, for the case
 * that the GPU never came to run it.
 */
final class Completion {
  private static final Duration GRACE = Duration.ofSeconds(20);

  /** How long to wait once more for a GPU that has already been found not to end its work. */
  private static final Duration ONCE_MORE = Duration.ofSeconds(2);

  private static final int SPINS = 4096;

  /** How often a waiting thread asks the driver whether the GPU has failed. */
  private static final long ASK_NANOS = Duration.ofSeconds(1).toNanos();

  private final HostWords words;
  private final CudaStream stream;
  private final int ranks;
  private final BufferConfig config;
  private final FailureDiagnosis diagnosis;

  /** Set before the first operation. */
  private @Nullable StaleRankFence fence;

  private long ticket;
  private long lastRunning;
  private long lastBefore;

  /** Whether the last operation masks dead peers by itself. Written by the thread in the buffer. */
  private volatile boolean masking;

  /** Whether a wait has ended without the GPU's work. */
  private volatile boolean stuck;

  /** What broke the buffer; null while all is well. Guarded by this. */
  private @Nullable RuntimeException failure;

  Completion(
      HostWords words,
      CudaStream stream,
      int ranks,
      BufferConfig config,
      FailureDiagnosis diagnosis) {
    this.words = words;
    this.stream = stream;
    this.ranks = ranks;
    this.config = config;
    this.diagnosis = diagnosis;
  }

  /**
   * Waiting is vain, too, once {@code connection} says so; kernels are told of dead ranks when
   * these have been evicted.
   */
  void attach(@Nullable InternodeConnection connection, StaleRankFence rankFence) {
    fence = rankFence;
    diagnosis.attach(connection, rankFence);
  }

  /**
   * The ticket of the next operation; called by the one thread in the buffer.
   *
   * @param captured whether it will run only when a graph is replayed
   */
  long next(boolean captured) {
    ticket++;
    masking = false;
    if (!captured) {
      lastBefore = lastRunning;
      lastRunning = ticket;
    }
    return ticket;
  }

  /** The same for an operation that masks dead peers if the buffer is to do so. */
  long nextMasking(boolean captured) {
    long next = next(captured);
    masking = config.masking();
    return next;
  }

  /** The operation of this ticket, the last one, has not been given to the GPU after all. */
  void withdraw(long last) {
    if (lastRunning == last) {
      lastRunning = lastBefore;
    }
  }

  /** Waits until all operations given to the GPU so far have ended, well or badly. */
  void awaitAll() {
    awaitWord(null, 0, lastRunning, "the last operation", Long.MAX_VALUE);
  }

  /** The same for the last time: tells whether they have ended, instead of throwing. */
  boolean endsInTime() {
    Duration limit = stuck ? ONCE_MORE : config.timeout().plus(GRACE);
    try {
      return awaitWord(null, 0, lastRunning, "the last operation", limit.toNanos());
    } catch (Ep4jException e) {
      return false;
    }
  }

  boolean reached(long wanted) {
    return words.completed() >= wanted;
  }

  /** Waits until an operation has ended; throws what went wrong in it. */
  void await(long wanted, String operation) {
    awaitWord(null, 0, wanted, operation, Long.MAX_VALUE);
    check(operation);
  }

  /** The same for at most {@code limit}. */
  boolean await(long wanted, String operation, Duration limit) {
    if (!awaitWord(null, 0, wanted, operation, limit.toNanos())) {
      return false;
    }
    check(operation);
    return true;
  }

  /** Waits for a ticket that a kernel writes to a word in page-locked memory. */
  void awaitAt(MemorySegment memory, long offset, long wanted, String operation) {
    awaitWord(memory, offset, wanted, operation, Long.MAX_VALUE);
    check(operation);
  }

  /** Without memory: the operation's end. Returns whether it was reached in time. */
  private boolean awaitWord(
      @Nullable MemorySegment memory, long offset, long wanted, String operation, long limit) {
    long start = 0;
    long asked = 0;
    for (int spin = 1; !done(memory, offset, wanted); spin++) {
      if (spin % SPINS != 0) {
        Thread.onSpinWait();
        continue;
      }
      long now = System.nanoTime();
      if (start == 0) {
        start = now;
        asked = now;
      }
      if (now - asked > ASK_NANOS) {
        asked = now;
        requireWorkingGpu(operation);
      }
      if (now - start > limit) {
        return false;
      }
      checkPeers();
      if (now - start > config.timeout().plus(GRACE).toNanos()) {
        stuck = true;
        throw breakWith(
            new Ep4jException(
                operation
                    + ": the GPU has not ended it after "
                    + (now - start) / 1_000_000
                    + " ms; is its stream waiting for other work? Call reset() on all ranks to go"
                    + " on"));
      }
      Thread.yield();
    }
    return true;
  }

  /**
   * A kernel that made the GPU fail never ends; the driver tells, whichever stream it is asked of.
   */
  private void requireWorkingGpu(String operation) {
    try {
      stream.query();
    } catch (CudaException e) {
      stuck = true;
      throw breakWith(
          new Ep4jException(
              operation
                  + ": the GPU has failed, and with it all that this process does on it: "
                  + e.getMessage(),
              e));
    }
  }

  private boolean done(@Nullable MemorySegment memory, long offset, long wanted) {
    return memory == null
        ? words.completed() >= wanted
        // An operation that gave up ends without having written its counts.
        : NativeMemory.getLongAcquire(memory, offset) == wanted || words.completed() >= wanted;
  }

  /** Waiting for the dead is vain, and so is waiting for those who count this rank as dead. */
  private void checkPeers() {
    if (diagnosis.isCutOff()
        || diagnosis.isConsideredLost()
        || (!masking && diagnosis.lostPeer() >= 0)) {
      words.abort();
    }
    for (int r = 0; masking && fence != null && r < ranks; r++) {
      // Kernels give its areas to others as soon as they know that it is gone.
      if (diagnosis.isLost(r)) {
        fence.fenceStep(r);
      }
    }
  }

  /** Throws what a kernel reported. */
  void check(String operation) {
    if (words.state() == HostWords.STATE_TIMEOUT && !isBroken()) {
      // Without the lock: who resets or closes does not listen.
      diagnosis.awaitLossNotice();
    }
    throwReported(operation);
  }

  private synchronized void throwReported(String operation) {
    if (failure != null) {
      throw failure;
    }
    long state = words.state();
    if (state == 0) {
      return;
    }
    if (state == HostWords.STATE_TIMEOUT) {
      throw breakWith(diagnosis.ofTimeout(operation));
    }
    if (state == HostWords.STATE_OTHER_KIND) {
      throw breakWith(diagnosis.ofOtherKind());
    }
    RuntimeException bad = diagnosis.ofBadChoice(state);
    words.clearRecord();
    throw bad;
  }

  /** What to say when ranks are missing in a barrier of those that are left. */
  RuntimeException missing(GroupException problem, long waitedMillis) {
    return diagnosis.missing(problem, waitedMillis);
  }

  private synchronized RuntimeException breakWith(RuntimeException reason) {
    failure = reason;
    return reason;
  }

  /** Refuses what reaches into others' memory when they have gone on without this rank. */
  void requireNotFenced(String call) {
    if (diagnosis.fencedBy() != StaleRankFence.NO_RANK) {
      throw outside(call);
    }
  }

  /** What to say when they have, or are about to. */
  RuntimeException outside(String call) {
    return breakWith(diagnosis.outside(call));
  }

  /** Refuses to begin an operation on a broken buffer. */
  synchronized void requireUsable() {
    if (failure != null) {
      throw new IllegalStateException(
          "the buffer needs reset() on all live ranks: " + failure.getMessage(), failure);
    }
  }

  /** From now on only reset and close are accepted. */
  synchronized void needsReset(String reason) {
    if (failure == null) {
      failure = new Ep4jException(reason);
    }
  }

  /** Whether only a reset helps. */
  synchronized boolean isBroken() {
    return failure != null;
  }

  boolean isExcluded(int rank) {
    return diagnosis.isExcluded(rank);
  }

  /** All is well again among those that are left. */
  synchronized void reset(boolean[] gone) {
    diagnosis.exclude(gone);
    failure = null;
    stuck = false;
    words.reset();
  }
}
