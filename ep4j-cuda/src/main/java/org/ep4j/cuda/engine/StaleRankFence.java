package org.ep4j.cuda.engine;

import java.lang.System.Logger.Level;
import java.time.Duration;
import java.util.Arrays;
import java.util.function.IntConsumer;
import java.util.function.IntPredicate;
import java.util.function.IntToLongFunction;
import java.util.function.LongSupplier;
import org.ep4j.Ep4jException;

/**
 * Keeps ranks that were lost from writing into memory that is in use. The process of such a rank
 * may only have been stopped: its GPU goes on with what was launched, and once it goes on itself it
 * launches more, which finds all words of the operation in which it was lost and waits for nobody.
 *
 * <p>So its kernels are told first, in its own memory, where they look at their start and whenever
 * they wait. A kernel says that it runs before it looks, with nothing that would order the two: a
 * fence in each kernel would cost more than what it guards. Here {@link #GRACE} passes between the
 * two accesses instead, then the kernel that runs is waited for. That of a process that was killed
 * never says that it has ended; one that was told ends soon, so after {@link #MAX_WAIT} nobody is
 * there.
 *
 * <p>Who is out evicts nobody: a process that goes on may hear that the others are gone just before
 * it hears that it is itself. So a loss counts once it was known for {@link #GRACE}, and this rank
 * looks at its own word before it writes those of others.
 *
 * <p>Any thread.
 */
final class StaleRankFence implements AutoCloseable {
  /** Far more than a store takes to be seen, also where ranks share a GPU in turns. */
  static final Duration GRACE = Duration.ofMillis(20);

  /** Far more than a kernel takes to end that waits for nobody. */
  static final Duration MAX_WAIT = Duration.ofSeconds(1);

  /** How long {@link #fence} takes at most, as far as the driver answers. */
  static final Duration MAX_DURATION = MAX_WAIT.plus(GRACE.multipliedBy(4));

  /** In the place of a rank. */
  static final int NO_RANK = -1;

  private static final System.Logger LOG = System.getLogger("org.ep4j.cuda");
  private static final int POLL_MILLIS = 1;

  /** How far the eviction of a rank is. */
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

    /** Writes it. */
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

  // What follows is guarded by this.
  private final Step[] steps;

  /** When the last step of each rank was, and when it was told. */
  private final long[] since;

  private final long[] notifiedAt;
  private boolean closed;

  /**
   * @param rank this one
   * @param regions where the region of each rank lies; 0 if it cannot be reached any more
   * @param alive whether a rank is, as far as is known
   * @param gone is told of each rank that is out, once
   * @param clock in nanoseconds
   */
  StaleRankFence(
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
   * Evicts a rank that is dead, a little further with each call, without waiting. Does nothing once
   * another process has taken its place, or the buffer is closed.
   */
  synchronized void fenceStep(int lost) {
    if (!closed && !alive.test(lost)) {
      step(lost);
    }
  }

  /**
   * Evicts ranks that all who are left have agreed to go on without, and waits.
   *
   * @return false if this rank is out itself; then some may not have been told
   */
  boolean fence(boolean[] lost) {
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
              || words.read(word(lost, ControlField.RUNNING)) == 0) {
            advance(lost, Step.QUIESCED);
          }
        }
        // What its last kernel has stored has arrived.
        case QUIESCED -> advance(lost, Step.FENCED);
        case FENCED -> {}
      }
    } catch (Ep4jException e) {
      LOG.log(Level.WARNING, "rank " + lost + " cannot be told that it is lost", e);
      advance(lost, Step.FENCED);
    }
  }

  private void notifyFenced(int lost) {
    if (isFencedOut()) {
      return;
    }
    // Who was told by others may have given its memory back by now.
    if (words.read(word(lost, ControlField.FENCED_BY)) == 0) {
      words.write(word(lost, ControlField.FENCED_BY), rank + 1L);
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

  private long word(int of, ControlField field) {
    return regions.applyAsLong(of) + field.offset();
  }

  /** A rank that has evicted this one, or {@link #NO_RANK}. */
  synchronized int by() {
    return closed ? NO_RANK : (int) words.read(word(rank, ControlField.FENCED_BY)) - 1;
  }

  private boolean isFencedOut() {
    return !alive.test(rank) || by() != NO_RANK;
  }

  /** Another process has taken the place of a rank, and counts as alive. */
  synchronized void admit(int back) {
    steps[back] = Step.LIVE;
  }

  @Override
  public synchronized void close() {
    closed = true;
    words.close();
  }
}
