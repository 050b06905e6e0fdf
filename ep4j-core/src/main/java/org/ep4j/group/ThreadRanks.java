package org.ep4j.group;

import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ConcurrentLinkedQueue;
import org.ep4j.error.ErrorCode;
import org.ep4j.group.protocol.Deadline;
import org.jspecify.annotations.Nullable;

/**
 * Runs the same code on one thread per rank, in one JVM.
 *
 * <p>If the code of a rank throws, its group fails, and the other ranks end in {@link
 * PeerLostException} instead of waiting for it. When the code returns, the group is closed.
 */
public final class ThreadRanks {
  /** Default limit for all ranks together. */
  public static final Duration DEFAULT_LIMIT = Duration.ofMinutes(5);

  private static final Duration END_AFTER_INTERRUPT = Duration.ofSeconds(5);

  /** The code of a rank. */
  @FunctionalInterface
  public interface RankBody {
    /** Runs on the rank's own thread. */
    void run(Group group) throws Exception;
  }

  /** The code of a rank, with a result. */
  @FunctionalInterface
  public interface RankFunction<T extends @Nullable Object> {
    /** Runs on the rank's own thread. */
    T call(Group group) throws Exception;
  }

  private record Failure(int rank, Throwable cause) {}

  private ThreadRanks() {}

  /** {@link #run(int, Duration, RankBody)} with {@link #DEFAULT_LIMIT}. */
  public static void run(int ranks, RankBody body) {
    run(ranks, DEFAULT_LIMIT, body);
  }

  /**
   * Runs the body once per rank and waits for all.
   *
   * @param limit maximum time for all ranks together
   * @throws RankFailedException if a rank threw: the first failure, with those that differ
   *     suppressed in it
   * @throws GroupTimeoutException if ranks still run after the limit; they are interrupted, and
   *     their stack traces are suppressed in it
   */
  public static void run(int ranks, Duration limit, RankBody body) {
    call(
        ranks,
        limit,
        group -> {
          body.run(group);
          return Boolean.TRUE;
        });
  }

  /** {@link #call(int, Duration, RankFunction)} with {@link #DEFAULT_LIMIT}. */
  public static <T extends @Nullable Object> List<T> call(int ranks, RankFunction<T> function) {
    return call(ranks, DEFAULT_LIMIT, function);
  }

  /**
   * Calls the function once per rank; returns the results in rank order. Errors as {@link #run(int,
   * Duration, RankBody)}.
   */
  public static <T extends @Nullable Object> List<T> call(
      int ranks, Duration limit, RankFunction<T> function) {
    Deadline deadline = Deadline.after(limit);
    List<Group> groups = Group.inProcess(ranks);
    // Each rank writes its own element; Thread.join publishes it.
    @Nullable Object[] results = new @Nullable Object[ranks];
    ConcurrentLinkedQueue<Failure> failures = new ConcurrentLinkedQueue<>();
    List<Thread> threads = new ArrayList<>();
    for (Group group : groups) {
      threads.add(
          Thread.ofPlatform()
              .daemon()
              .name("ep4j-rank-" + group.rank())
              .start(() -> runRank(group, function, results, failures)));
    }
    join(threads, deadline);
    throwFirst(failures);
    return listOf(results);
  }

  @SuppressWarnings("unchecked") // holds the results of the ranks' functions
  private static <T extends @Nullable Object> List<T> listOf(@Nullable Object[] results) {
    return (List<T>) Collections.unmodifiableList(Arrays.asList(results));
  }

  private static <T extends @Nullable Object> void runRank(
      Group group,
      RankFunction<T> function,
      @Nullable Object[] results,
      ConcurrentLinkedQueue<Failure> failures) {
    try {
      results[group.rank()] = function.call(group);
      group.close();
    } catch (Throwable t) {
      // Queued before the others can see the failure, so the first in the queue is the root cause.
      failures.add(new Failure(group.rank(), t));
      group.fail(t.toString());
    }
  }

  private static void join(List<Thread> threads, Deadline deadline) {
    try {
      for (Thread thread : threads) {
        while (thread.isAlive() && !deadline.expired()) {
          thread.join(deadline.remainingMillis());
        }
      }
    } catch (InterruptedException e) {
      threads.forEach(Thread::interrupt);
      Thread.currentThread().interrupt();
      throw new GroupException(
          ErrorCode.GROUP_INTERRUPTED, "interrupted while waiting for the ranks", e);
    }
    int[] running = running(threads);
    if (running.length > 0) {
      GroupTimeoutException timeout =
          new GroupTimeoutException(
              ErrorCode.RANKS_STILL_RUNNING,
              "ranks %s did not end within %s".formatted(Arrays.toString(running), deadline.text()),
              running,
              null);
      for (int rank : running) {
        Throwable place = new Throwable("rank " + rank + " was here");
        place.setStackTrace(threads.get(rank).getStackTrace());
        timeout.addSuppressed(place);
      }
      interrupt(threads);
      throw timeout;
    }
  }

  private static int[] running(List<Thread> threads) {
    int[] running = new int[threads.size()];
    int n = 0;
    for (int rank = 0; rank < threads.size(); rank++) {
      if (threads.get(rank).isAlive()) {
        running[n++] = rank;
      }
    }
    return Arrays.copyOf(running, n);
  }

  /** Interrupts the threads and gives them time to end. */
  private static void interrupt(List<Thread> threads) {
    threads.forEach(Thread::interrupt);
    Deadline deadline = Deadline.after(END_AFTER_INTERRUPT);
    try {
      for (Thread thread : threads) {
        while (thread.isAlive() && !deadline.expired()) {
          thread.join(deadline.remainingMillis());
        }
      }
    } catch (InterruptedException e) {
      Thread.currentThread().interrupt();
    }
  }

  private static RankFailedException failed(List<Failure> same) {
    List<Integer> others = same.stream().skip(1).map(Failure::rank).sorted().toList();
    return new RankFailedException(same.getFirst().rank(), same.getFirst().cause(), others);
  }

  private static void throwFirst(ConcurrentLinkedQueue<Failure> failures) {
    Failure first = failures.poll();
    if (first != null) {
      // A mistake that all ranks make appears once, whatever the number of ranks.
      Map<String, List<Failure>> alike = new LinkedHashMap<>();
      alike.computeIfAbsent(first.cause().toString(), text -> new ArrayList<>()).add(first);
      for (Failure other : failures) {
        alike.computeIfAbsent(other.cause().toString(), text -> new ArrayList<>()).add(other);
      }
      RankFailedException exception = null;
      for (List<Failure> same : alike.values()) {
        RankFailedException one = failed(same);
        if (exception == null) {
          exception = one;
        } else {
          exception.addSuppressed(one);
        }
      }
      throw exception;
    }
  }
}
