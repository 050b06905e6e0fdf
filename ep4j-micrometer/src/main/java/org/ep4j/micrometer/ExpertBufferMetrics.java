package org.ep4j.micrometer;

import io.micrometer.core.instrument.MeterRegistry;
import io.micrometer.core.instrument.Tag;
import io.micrometer.core.instrument.Tags;
import io.micrometer.core.instrument.binder.MeterBinder;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.locks.ReentrantLock;
import org.ep4j.ExpertBuffer;
import org.ep4j.config.EngineName;
import org.ep4j.error.ErrorCode;
import org.ep4j.error.IllegalUseException;
import org.ep4j.error.InvalidArgumentException;
import org.ep4j.execution.Execution;

/**
 * Metrics of an open {@link ExpertBuffer}. {@code docs/observability/README.md} lists the meters.
 *
 * <pre>{@code
 * try (ExpertBufferMetrics metrics = ExpertBufferMetrics.of(ExpertBuffer.open(group, config));
 *     ExpertBuffer buffer = metrics.buffer()) {
 *   metrics.bindTo(registry);
 *   ... // as before, with this buffer
 * }
 * }</pre>
 *
 * <p>Values have three origins:
 *
 * <ul>
 *   <li>calls through {@link #buffer()}: durations, recoveries, failures. They record nothing for
 *       calls that go to the original buffer. The duration of an asynchronous call ends when the
 *       call returns.
 *   <li>{@link ExpertBuffer#statistics()}: rows, bytes, memory. Only the thread that uses the
 *       buffer may ask for them, so meters show the last sample: the host engine's is taken at the
 *       end of synchronous calls through {@link #buffer()}, once a second at most. For other
 *       engines, whose statistics wait for the device, the program calls {@link #sample()}.
 *   <li>{@link ExpertBuffer#observe()}: waits for other ranks, timeouts, tokens of experts, of the
 *       original buffer too. Only engines that record waits have these meters.
 * </ul>
 *
 * <p><b>Threads:</b> the thread that uses the buffer builds the metrics and calls {@link
 * #sample()}. All else may be called by any thread. Reading meters neither waits nor throws, nor
 * does it make an operation wait.
 *
 * <p>{@link #close()} removes the meters from their registries; so does closing {@link #buffer()}.
 * A registry keeps meters that are not closed, with their last values.
 */
public final class ExpertBufferMetrics implements MeterBinder, AutoCloseable {
  /** Value of the tag of experts that share a counter. */
  private static final String REST = "rest";

  private static final long SAMPLE_INTERVAL = 1_000_000_000;

  private final Tags tags;
  private final int maxPeers;
  private final int rank;
  private final int ranks;

  /** Whether statistics cost so little that calls take samples. */
  private final boolean samplesItself;

  private final ReentrantLock lock = new ReentrantLock();
  private final Readings readings;
  private final ExpertBuffer monitored;

  /** Replaced under the lock. */
  private volatile List<RegistryMeters> registries = List.of();

  /** Written under the lock. */
  private volatile boolean closed;

  private ExpertBufferMetrics(Builder builder) {
    ExpertBuffer buffer = builder.buffer;
    rank = buffer.rank();
    ranks = buffer.worldSize();
    tags = builder.tags.and(TagKeys.RANK, String.valueOf(rank));
    maxPeers = builder.maxPeers;
    samplesItself = buffer.engine().equals(EngineName.HOST);
    readings = new Readings(buffer, lock, this::updateCounters, builder.maxExperts);
    monitored = new MonitoredBuffer(buffer, this);
  }

  /** Metrics with the tag {@code rank} alone. */
  public static ExpertBufferMetrics of(ExpertBuffer buffer) {
    return builder(buffer).build();
  }

  /** A builder with the defaults. */
  public static Builder builder(ExpertBuffer buffer) {
    return new Builder(buffer);
  }

  /** The buffer, with its calls recorded. Closing it closes the original buffer and the metrics. */
  public ExpertBuffer buffer() {
    return monitored;
  }

  /**
   * Reads the statistics of the buffer for the meters. Called by the thread that uses the buffer,
   * between operations; waits for queued operations, on GPUs for the kernels. Does nothing after
   * {@link #close()}.
   *
   * @throws IllegalStateException if the buffer is closed, or another thread is inside
   */
  public void sample() {
    if (!closed) {
      readings.sample();
    }
  }

  /**
   * Registers the meters.
   *
   * @throws IllegalStateException if the metrics are closed, or the registry has meters of another
   *     buffer with the same tags; nothing is registered
   */
  @Override
  public void bindTo(MeterRegistry registry) {
    lock.lock();
    try {
      if (closed) {
        throw new IllegalUseException(
            ErrorCode.METRICS_STATE, "the metrics are closed: build new ones of an open buffer");
      }
      RegistryMeters meters = new RegistryMeters(registry, tags, readings);
      try {
        bindCalls(meters);
        bindStatistics(meters);
        if (readings.observes()) {
          bindObservation(meters);
        }
        updateCounters(meters);
      } catch (RuntimeException e) {
        meters.remove();
        throw e;
      }
      meters.bound();
      List<RegistryMeters> more = new ArrayList<>(registries);
      more.add(meters);
      registries = List.copyOf(more);
    } finally {
      lock.unlock();
    }
  }

  private static void bindCalls(RegistryMeters meters) {
    for (Call call : Call.values()) {
      meters.timer(call);
    }
    meters.counter(BufferMeter.FAILURES, Tags.empty(), r -> r.failures.counted());
  }

  private static void bindStatistics(RegistryMeters meters) {
    Tags none = Tags.empty();
    Tags dispatch = Tags.of("operation", "dispatch");
    Tags combine = Tags.of("operation", "combine");
    Tags throughput = Tags.of("mode", "high_throughput");
    Tags latency = Tags.of("mode", "low_latency");
    BufferMeter operations = BufferMeter.OPERATIONS;
    meters.counter(
        operations, dispatch.and(throughput), r -> r.sampled().statistics().dispatches());
    meters.counter(operations, combine.and(throughput), r -> r.sampled().statistics().combines());
    meters.counter(
        operations, dispatch.and(latency), r -> r.sampled().statistics().lowLatencyDispatches());
    meters.counter(
        operations, combine.and(latency), r -> r.sampled().statistics().lowLatencyCombines());
    meters.counter(BufferMeter.SENT_ROWS, none, r -> r.sampled().statistics().rowsSent());
    meters.counter(BufferMeter.RECEIVED_ROWS, none, r -> r.sampled().statistics().rowsReceived());
    meters.counter(
        BufferMeter.SENT_PAYLOAD, none, r -> r.sampled().statistics().payloadBytesSent());
    meters.gauge(
        BufferMeter.MEMORY,
        Tags.of("scope", "symmetric"),
        r -> r.sampled().statistics().symmetricBytes());
    meters.gauge(
        BufferMeter.MEMORY,
        Tags.of("scope", "private"),
        r -> r.sampled().statistics().privateBytes());
    meters.gauge(BufferMeter.MASKED_RANKS, none, r -> r.sampled().maskedRanks());
    meters.gauge(
        BufferMeter.ABANDONED_THREADS, none, r -> r.sampled().statistics().abandonedThreads());
    meters.gauge(BufferMeter.STATISTICS_AGE, none, r -> r.sampled().ageSeconds());
  }

  private void bindObservation(RegistryMeters meters) {
    Tags none = Tags.empty();
    meters.counter(BufferMeter.TIMEOUTS, none, r -> r.seen().timeouts());
    meters.gauge(BufferMeter.TIMEOUT_PEER, none, r -> r.seen().timeoutPeer());
    meters.gauge(BufferMeter.PERIOD, none, r -> r.seen().period());
    meters.gauge(BufferMeter.LONGEST_WAIT, none, r -> r.seen().longestWait());
    meters.gauge(BufferMeter.LONGEST_WAIT_PEER, none, r -> r.seen().longestWaitPeer());
    meters.gauge(BufferMeter.EXPERT_BALANCEDNESS, none, r -> r.seen().balancedness());
    for (int peer = 0; peer < ranks && ranks - 1 <= maxPeers; peer++) {
      int of = peer;
      if (peer != rank) {
        meters.gauge(
            BufferMeter.WAIT, Tags.of("peer", String.valueOf(peer)), r -> r.seen().waitFor(of));
      }
    }
    if (readings.hasRest()) {
      meters.counter(BufferMeter.EXPERT_TOKENS, Tags.of("expert", REST), r -> r.seen().rest());
    }
  }

  /** Under the lock: counters of the ports and experts that are there now. */
  private void updateCounters() {
    registries.forEach(this::updateCounters);
  }

  private void updateCounters(RegistryMeters meters) {
    for (String port : readings.lastSample().sentThroughPort().keySet()) {
      meters.counterWhile(
          true, BufferMeter.WIRE_SENT, Tags.of("port", port), r -> r.sampled().sentThrough(port));
    }
    int[] experts = readings.expertIds();
    for (int i = 0; i < experts.length; i++) {
      int local = i;
      meters.counterWhile(
          readings.lastSeen().hasCounter(local),
          BufferMeter.EXPERT_TOKENS,
          Tags.of("expert", String.valueOf(experts[local])),
          r -> r.seen().tokens(local));
    }
  }

  /** A call through {@link #buffer()} has ended; called by the thread that uses the buffer. */
  void ended(Call call, long begin, Execution execution) {
    long now = System.nanoTime();
    List<RegistryMeters> all = registries;
    for (int i = 0; i < all.size(); i++) {
      all.get(i).record(call, now - begin);
    }
    if (samplesItself
        && !execution.isAsync()
        && now - readings.lastSample().nanos() > SAMPLE_INTERVAL) {
      readings.sample();
    }
  }

  /** A call through {@link #buffer()} has failed; returns the error. */
  RuntimeException failed(RuntimeException error) {
    return readings.failures.count(error);
  }

  /** Removes the meters from all registries. Further calls do nothing. */
  @Override
  public void close() {
    lock.lock();
    try {
      closed = true;
      List<RegistryMeters> all = registries;
      registries = List.of();
      all.forEach(RegistryMeters::remove);
    } finally {
      lock.unlock();
    }
  }

  @Override
  public String toString() {
    return "metrics of " + monitored + " with " + tags;
  }

  /** Builds metrics. */
  public static final class Builder {
    private final ExpertBuffer buffer;
    private Tags tags = Tags.empty();
    private int maxExperts = 32;
    private int maxPeers = 64;

    private Builder(ExpertBuffer buffer) {
      this.buffer = buffer;
    }

    /**
     * Tags of all meters, beside {@code rank}. Buffers of one process need different ones, with the
     * same keys.
     *
     * @throws InvalidArgumentException if a key is empty, one of the meters' own, or in Prometheus
     *     the same as another one or reserved
     */
    public Builder tags(Iterable<? extends Tag> value) {
      tags = TagKeys.checked(value);
      return this;
    }

    /** Maximum number of experts with a counter of their own; the busiest; default 32. */
    public Builder maxExperts(int value) {
      maxExperts = positive("maxExperts", value);
      return this;
    }

    /**
     * Maximum number of other ranks for which there is a meter of each; with more, only the longest
     * wait and its rank; default 64. All ranks together have a meter for each pair of ranks.
     */
    public Builder maxPeers(int value) {
      maxPeers = positive("maxPeers", value);
      return this;
    }

    private static int positive(String name, int value) {
      if (value < 1) {
        throw new InvalidArgumentException(
            ErrorCode.METRICS_SETTING,
            name,
            String.valueOf(value),
            ">= 1",
            "leave it out for the default");
      }
      return value;
    }

    /**
     * Reads the buffer for the first time. Called by the thread that uses the buffer, between
     * operations.
     *
     * @throws IllegalStateException if the buffer is closed, or another thread is inside
     */
    public ExpertBufferMetrics build() {
      return new ExpertBufferMetrics(this);
    }
  }
}
