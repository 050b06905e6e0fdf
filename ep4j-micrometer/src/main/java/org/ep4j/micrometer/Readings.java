package org.ep4j.micrometer;

import java.util.concurrent.locks.ReentrantLock;
import org.ep4j.ExpertBuffer;
import org.ep4j.observe.RankObservation;
import org.jspecify.annotations.Nullable;

/**
 * The values of all meters of a buffer.
 *
 * <p>The thread that uses the buffer calls {@link #sample}, which replaces the sample and waits for
 * no lock. Any other thread reads values; about every half second one of them observes the buffer,
 * while the others read what is there. So a scrape neither waits nor makes an operation wait.
 */
final class Readings {
  private static final long INTERVAL = 500_000_000;

  final Failures failures = new Failures();

  private final ExpertBuffer buffer;
  private final ReentrantLock lock;
  private final Runnable observed;

  private volatile Sample sample;

  /** Null with engines that record no waits. */
  private volatile @Nullable Seen seen;

  /** Under the lock, and null as {@link #seen}. */
  private final @Nullable ExpertSeries experts;

  /** Experts of this rank; empty as above. */
  private final int[] expertIds;

  /** Time of the last observation, as System.nanoTime. */
  private volatile long observedAt = System.nanoTime();

  /**
   * Reads the buffer for the first time; called by the thread that uses it.
   *
   * @param lock taken around observations
   * @param observed runs after an observation, under the lock
   * @param maxExperts see {@link ExpertSeries}
   */
  Readings(ExpertBuffer buffer, ReentrantLock lock, Runnable observed, int maxExperts) {
    this.buffer = buffer;
    this.lock = lock;
    this.observed = observed;
    sample = Sample.of(buffer);
    RankObservation first = observe();
    expertIds = new int[first == null ? 0 : first.localExperts()];
    for (int i = 0; first != null && i < expertIds.length; i++) {
      expertIds[i] = first.expert(i);
    }
    experts = first == null ? null : new ExpertSeries(first, maxExperts);
    seen = first == null || experts == null ? null : new Seen(first, experts);
  }

  private @Nullable RankObservation observe() {
    try {
      return buffer.observe();
    } catch (UnsupportedOperationException e) {
      return null;
    }
  }

  /** Reads the counters of the buffer; called by the thread that uses it. */
  void sample() {
    sample = Sample.of(buffer);
  }

  /** The last sample. */
  Sample lastSample() {
    return sample;
  }

  /** The last sample, after an observation if one is due. */
  Sample sampled() {
    observeWhenDue();
    return sample;
  }

  /** Whether the engine records waits. */
  boolean observes() {
    return experts != null;
  }

  /** What the rank has observed, after an observation if one is due. */
  Seen seen() {
    observeWhenDue();
    return lastSeen();
  }

  /** The last observation. */
  Seen lastSeen() {
    Seen last = seen;
    if (last == null) {
      throw new IllegalStateException("meters of an engine that records no waits are not bound");
    }
    return last;
  }

  /** Whether experts share a counter. */
  boolean hasRest() {
    return experts != null && !experts.complete();
  }

  /** Ids of the experts of this rank by local number; empty without observations. */
  int[] expertIds() {
    return expertIds.clone();
  }

  private void observeWhenDue() {
    if (System.nanoTime() - observedAt < INTERVAL || !lock.tryLock()) {
      return;
    }
    try {
      RankObservation now = experts == null ? null : observe();
      if (now != null && experts != null) {
        experts.update(now);
        seen = new Seen(now, experts);
      }
      observedAt = System.nanoTime();
      observed.run();
    } finally {
      lock.unlock();
    }
  }
}
