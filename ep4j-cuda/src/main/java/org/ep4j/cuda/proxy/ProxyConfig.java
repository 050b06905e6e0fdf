package org.ep4j.cuda.proxy;

import java.time.Duration;
import java.util.List;
import org.ep4j.InvalidArgumentException;

/**
 * How commands are carried.
 *
 * @param threads threads that post, each the driver of one strand of the wire; 1 to 8
 * @param rings rings, a multiple of {@code threads}: ring {@code r} belongs to thread {@code r %
 *     threads}
 * @param capacity commands that a ring holds, a power of two, 64 to 65536
 * @param flushCounters words that count flushes
 * @param cores where the threads run, one each; empty leaves that to the system
 * @param timeout how long closing waits for work to leave
 */
public record ProxyConfig(
    int threads,
    int rings,
    int capacity,
    int flushCounters,
    List<Integer> cores,
    Duration timeout) {
  /** The variable that says how many threads, 1 to {@link #MAX_THREADS}. */
  public static final String THREADS_VARIABLE = "EP4J_PROXY_THREADS";

  /**
   * The variable that names cores of the threads, one each, with commas between them; {@code none}
   * leaves that to the system.
   */
  public static final String CORES_VARIABLE = "EP4J_PROXY_CORES";

  /** Most threads. */
  public static final int MAX_THREADS = 8;

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
        "notices",
        flushCounters,
        "0 to " + (Command.NO_COUNTER - 1));
    require(
        cores.isEmpty()
            || (cores.size() == threads
                && cores.stream().allMatch(core -> core >= 0 && core < CpuAffinity.CORES)),
        "cores",
        cores,
        "a core for each of the " + threads + " threads, or none");
    require(timeout.isPositive(), "timeout", timeout, "positive");
  }

  /** So many threads, two rings each of 2048 commands, not pinned. */
  public static ProxyConfig of(int threads) {
    return new ProxyConfig(threads, 2 * threads, 2048, 1024, List.of(), Duration.ofSeconds(10));
  }

  private static void require(boolean holds, String field, Object value, String allowed) {
    if (!holds) {
      throw new InvalidArgumentException(
          field, value.toString(), allowed, "ProxyConfig.of(4) suits most");
    }
  }
}
