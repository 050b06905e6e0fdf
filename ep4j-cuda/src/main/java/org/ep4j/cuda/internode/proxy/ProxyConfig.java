package org.ep4j.cuda.internode.proxy;

import java.time.Duration;
import java.util.List;
import org.ep4j.error.ErrorCode;
import org.ep4j.error.InvalidArgumentException;

/**
 * Configuration of a proxy.
 *
 * @param threads threads that post, each with one progress context of the wire; 1 to 8
 * @param rings rings, a multiple of {@code threads}: thread {@code r % threads} reads ring {@code
 *     r}
 * @param capacity commands per ring, a power of two, 64 to 65536
 * @param flushCounters words that count flushes
 * @param cores cores of the threads, one each; empty: the system chooses
 * @param queue commands that may wait for a lane that accepts no work before the ring waits, at
 *     least {@link #QUEUE}
 * @param timeout how long close waits for pending work
 */
public record ProxyConfig(
    int threads,
    int rings,
    int capacity,
    int flushCounters,
    List<Integer> cores,
    int queue,
    Duration timeout) {
  /** Environment variable with the number of threads, 1 to {@link #MAX_THREADS}. */
  public static final String THREADS_VARIABLE = "EP4J_PROXY_THREADS";

  /**
   * Environment variable with the cores of the threads, one each, separated by commas; {@code
   * none}: the system chooses.
   */
  public static final String CORES_VARIABLE = "EP4J_PROXY_CORES";

  /** Largest number of threads. */
  public static final int MAX_THREADS = 8;

  /** Largest number of lanes of a thread to a rank, which commands can name. */
  public static final int MAX_LANES = 256;

  /** Commands that may wait for a lane unless a caller needs more. */
  public static final int QUEUE = 256;

  private static final int MAX_RINGS = 256;
  private static final int MIN_CAPACITY = 64;
  private static final int MAX_CAPACITY = 1 << 16;

  /** Checks the values. */
  public ProxyConfig {
    cores = List.copyOf(cores);
    require(threads >= 1 && threads <= MAX_THREADS, "threads", threads, "1 to " + MAX_THREADS);
    require(
        rings >= threads && rings <= MAX_RINGS && rings % threads == 0,
        "rings",
        rings,
        "a multiple of threads = " + threads + ", at most " + MAX_RINGS);
    require(
        capacity >= MIN_CAPACITY && capacity <= MAX_CAPACITY && Integer.bitCount(capacity) == 1,
        "capacity",
        capacity,
        "a power of two from " + MIN_CAPACITY + " to " + MAX_CAPACITY);
    require(
        flushCounters >= 0 && flushCounters < Command.NO_COUNTER,
        "flushCounters",
        flushCounters,
        "0 to " + (Command.NO_COUNTER - 1));
    require(
        cores.isEmpty()
            || (cores.size() == threads
                && cores.stream().allMatch(core -> core >= 0 && core < CpuAffinity.CORES)),
        "cores",
        cores,
        "a core for each of the " + threads + " threads, or none");
    require(queue >= QUEUE, "queue", queue, "at least " + QUEUE);
    require(timeout.isPositive(), "timeout", timeout, "positive");
  }

  /** A configuration whose lanes have queues of the usual length. */
  public ProxyConfig(
      int threads,
      int rings,
      int capacity,
      int flushCounters,
      List<Integer> cores,
      Duration timeout) {
    this(threads, rings, capacity, flushCounters, cores, QUEUE, timeout);
  }

  /** The same with queues of at least {@code commands} commands. */
  public ProxyConfig withQueue(int commands) {
    return new ProxyConfig(
        threads, rings, capacity, flushCounters, cores, Math.max(QUEUE, commands), timeout);
  }

  /** {@code threads} threads, two rings each of 2048 commands, not pinned. */
  public static ProxyConfig of(int threads) {
    return new ProxyConfig(threads, 2 * threads, 2048, 1024, List.of(), Duration.ofSeconds(10));
  }

  private static void require(boolean holds, String field, Object value, String allowed) {
    if (!holds) {
      throw new InvalidArgumentException(
          ErrorCode.PROXY_CONFIG, field, value.toString(), allowed, "use ProxyConfig.of(4)");
    }
  }
}
