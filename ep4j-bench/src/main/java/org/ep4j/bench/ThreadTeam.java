package org.ep4j.bench;

import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import org.ep4j.error.Ep4jException;
import org.ep4j.error.ErrorCode;

/**
 * The threads of one rank for a ceiling, as many as an operation uses: the caller and its helpers.
 */
final class ThreadTeam implements AutoCloseable {
  private static final Duration TIMEOUT = Duration.ofMinutes(1);

  /** A part of the work. */
  @FunctionalInterface
  interface Part {
    /** Processes the elements from {@code from} to {@code to}. */
    void run(long from, long to);
  }

  private final int threads;
  private final ExecutorService helpers;

  ThreadTeam(int threads) {
    this.threads = threads;
    this.helpers =
        Executors.newFixedThreadPool(
            Math.max(1, threads - 1), Thread.ofPlatform().daemon().name("ceiling-", 0).factory());
  }

  /** Splits {@code elements} elements among the threads and waits for all. */
  void run(long elements, Part part) {
    List<Future<?>> parts = new ArrayList<>();
    for (int i = 1; i < threads; i++) {
      long from = elements * i / threads;
      long to = elements * (i + 1) / threads;
      parts.add(helpers.submit(() -> part.run(from, to)));
    }
    part.run(0, elements / threads);
    for (Future<?> other : parts) {
      try {
        other.get(TIMEOUT.toSeconds(), TimeUnit.SECONDS);
      } catch (InterruptedException e) {
        Thread.currentThread().interrupt();
        throw new Ep4jException(
            ErrorCode.MEASUREMENT_INTERRUPTED, "interrupted while measuring a ceiling", e);
      } catch (ExecutionException | TimeoutException e) {
        throw new Ep4jException(
            ErrorCode.MEASUREMENT_INTERRUPTED, "a thread failed while measuring a ceiling", e);
      }
    }
  }

  @Override
  public void close() {
    helpers.shutdownNow();
  }
}
