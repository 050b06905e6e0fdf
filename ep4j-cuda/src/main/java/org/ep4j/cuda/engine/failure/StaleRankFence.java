package org.ep4j.cuda.engine.failure;

import java.lang.System.Logger.Level;
import java.time.Duration;
import java.util.Arrays;
import java.util.function.IntConsumer;
import java.util.function.IntPredicate;
import java.util.function.IntToLongFunction;
import java.util.function.LongSupplier;
import org.ep4j.cuda.struct.Control;
import org.ep4j.cuda.struct.Struct;
import org.ep4j.error.Ep4jException;

/**
 * Keeps lost ranks from writing into memory that is in use. The process of a lost rank may only
 * have been stopped: its GPU continues with the launched kernels, and the resumed process launches
 * more kernels, which find all words of the interrupted operation complete and wait for no rank.
 *
 * <p>Therefore the fence first notifies the kernels of the lost rank, in a word of that rank's
 * memory that kernels read at their start and in every wait. A kernel announces that it runs before
 * it reads the word, and no fence orders the two accesses: a fence in each kernel would cost more
 * than this protection. Instead {@link #GRACE} passes between the two accesses here, then this
 * class waits for the running kernel to end. A kernel of a killed process never reports its end; a
 * notified kernel ends soon, so after {@link #MAX_WAIT} no kernel runs.
 *
 * <p>A fenced rank must not fence others: a resumed process may learn that the others are lost just
 * before it learns that it is fenced itself. Therefore a loss counts only after it has been known
 * for {@link #GRACE}, and this rank checks its own word before it writes those of others.
 *
 * <p>Thread-safe.
 */
public final class StaleRankFence implements AutoCloseable {
  /** Much longer than a store needs to become visible, even if ranks share a GPU by time slices. */
  static final Duration GRACE = Duration.ofMillis(20);

  /** Much longer than a kernel that waits for no rank needs to end. */
  static final Duration MAX_WAIT = Duration.ofSeconds(1);

  /** Largest duration of {@link #fence} while the driver responds. */
  public static final Duration MAX_DURATION = MAX_WAIT.plus(GRACE.multipliedBy(4));

  /** No rank. */
  static final int NO_RANK = -1;

  private static final System.Logger LOG = System.getLogger("org.ep4j.cuda");
  private static final int POLL_MILLIS = 1;

  /** Progress of the fence of a rank. */
  private enum Step {
    LIVE,
    SUSPECTED,
    NOTIFIED,
    QUIESCED,
    FENCED
  }

  /** Access to words while kernels run. */
  interface Words extends AutoCloseable {
    /** The word at an address of this rank's address space. */
    long read(long address);

    /** Writes the word at an address. */
    void write(long address, long value);

    @Override
    void close();
  }

  private final Words words;
  private final int rank;
  private final IntToLongFunction regions;
  private final IntPredicate alive;
  private final IntConsumer gone;
  private final LongSupplier clock;

  // All fields below are guarded by this.
  private final Step[] steps;

  /** Time of the last step of each rank, and of its notification. */
  private final long[] since;

  private final long[] notifiedAt;
  private boolean closed;

  /**
   * @param rank this rank
   * @param regions region of each rank; 0 if unreachable
   * @param alive whether a rank is alive, as far as known
   * @param gone called once for each fenced rank
   * @param clock in nanoseconds
   */
  public StaleRankFence(
      Words words,
      int rank,
      int ranks,
      IntToLongFunction regions,
      IntPredicate alive,
      IntConsumer gone,
      LongSupplier clock) {
    this.words = words;
    this.rank = rank;
    this.regions = regions;
    this.alive = alive;
    this.gone = gone;
    this.clock = clock;
    steps = new Step[ranks];
    Arrays.fill(steps, Step.LIVE);
    since = new long[ranks];
    notifiedAt = new long[ranks];
  }

  /**
   * Advances the fence of a dead rank by one step without waiting. Does nothing if another process
   * has replaced the rank or the buffer is closed.
   */
  synchronized void fenceStep(int lost) {
    if (!closed && !alive.test(lost)) {
      step(lost);
    }
  }

  /**
   * Fences the ranks that all survivors agreed to exclude, and waits.
   *
   * @return false if this rank is fenced itself; then some ranks may not have been notified
   */
  public boolean fence(boolean[] lost) {
    boolean interrupted = false;
    boolean inside = true;
    while (inside && !all(lost)) {
      try {
        Thread.sleep(POLL_MILLIS);
      } catch (InterruptedException e) {
        interrupted = true;
      }
      inside = !isFencedOut();
    }
    if (interrupted) {
      Thread.currentThread().interrupt();
    }
    return inside;
  }

  private synchronized boolean all(boolean[] lost) {
    boolean out = true;
    for (int r = 0; r < lost.length; r++) {
      if (lost[r]) {
        step(r);
        out &= steps[r] == Step.FENCED;
      }
    }
    return out;
  }

  private void step(int lost) {
    if (steps[lost] != Step.FENCED && regions.applyAsLong(lost) == 0) {
      advance(lost, Step.FENCED);
    }
    boolean due = steps[lost] == Step.LIVE || passed(since[lost], GRACE);
    if (steps[lost] == Step.FENCED || !due) {
      return;
    }
    try {
      switch (steps[lost]) {
        case LIVE -> advance(lost, Step.SUSPECTED);
        case SUSPECTED -> notifyFenced(lost);
        case NOTIFIED -> {
          if (passed(notifiedAt[lost], MAX_WAIT)
              || words.read(word(lost, Control.WORDS.running)) == 0) {
            advance(lost, Step.QUIESCED);
          }
        }
        // The stores of its last kernel have arrived.
        case QUIESCED -> advance(lost, Step.FENCED);
        case FENCED -> {}
      }
    } catch (Ep4jException e) {
      LOG.log(Level.WARNING, "rank " + lost + " cannot be notified that it is fenced", e);
      advance(lost, Step.FENCED);
    }
  }

  private void notifyFenced(int lost) {
    if (isFencedOut()) {
      return;
    }
    // A rank that others have fenced may have freed its memory by now.
    if (words.read(word(lost, Control.WORDS.fencedBy)) == 0) {
      words.write(word(lost, Control.WORDS.fencedBy), rank + 1L);
    }
    notifiedAt[lost] = clock.getAsLong();
    advance(lost, Step.NOTIFIED);
  }

  private boolean passed(long from, Duration time) {
    return clock.getAsLong() - from > time.toNanos();
  }

  private void advance(int lost, Step step) {
    steps[lost] = step;
    since[lost] = clock.getAsLong();
    if (step == Step.FENCED) {
      gone.accept(lost);
    }
  }

  private long word(int of, Struct.U64 field) {
    return regions.applyAsLong(of) + field.offset();
  }

  /** A rank that has fenced this one, or {@link #NO_RANK}. */
  synchronized int by() {
    return closed ? NO_RANK : (int) words.read(word(rank, Control.WORDS.fencedBy)) - 1;
  }

  private boolean isFencedOut() {
    return !alive.test(rank) || by() != NO_RANK;
  }

  /** Marks that another process has replaced a rank and is alive. */
  public synchronized void admit(int back) {
    steps[back] = Step.LIVE;
  }

  @Override
  public synchronized void close() {
    closed = true;
    words.close();
  }
}
