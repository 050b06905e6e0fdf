package org.ep4j.wire;

import java.time.Duration;
import org.ep4j.InvalidArgumentException;
import org.jspecify.annotations.Nullable;

/**
 * How a wire is opened. The same on all ranks, but for {@code near}: opening tells which rank
 * differs in which field.
 *
 * @param wire kind of wire; {@code auto} (default) takes {@code inproc} for threads of one JVM,
 *     {@code shm} for processes of one host, else {@code tcp}
 * @param lanes lanes to each peer; 4 by default
 * @param progressContexts threads that may drive the wire at once; 1 by default
 * @param counters counters of each rank; 1024 by default
 * @param bytesInFlight bytes that may be under way from a strand to one peer; 64 MiB by default. A
 *     larger put is accepted alone
 * @param operationsInFlight pieces of work that may be under way from a strand to one peer; 1024 by
 *     default
 * @param connections connections to each peer, for wires that have some; a multiple of {@code
 *     strands}; 0 (default) takes one a strand. Lane {@code i} uses connection {@code i %
 *     connections}
 * @param encrypted whether a wire that leaves the host encrypts (TLS 1.3); off by default
 * @param timeout how long opening may take; 60 s by default
 * @param affinity PCI address of the device whose rows this rank sends, as its driver writes it
 *     ({@code 0000:18:00.0}); empty (default) for a rank whose rows lie in the memory of its cores.
 *     A hint for wires that choose between ports; ranks differ in it
 */
public record WireConfig(
    String wire,
    int lanes,
    int progressContexts,
    int counters,
    long bytesInFlight,
    int operationsInFlight,
    int connections,
    boolean encrypted,
    Duration timeout,
    String affinity) {
  /**
   * No wire of {@link Wires}: between GPUs of one host that are declared as several nodes, whose
   * kernels write to each other through its memory. Only the engine of GPUs knows it.
   */
  public static final String STAGED = "staged";

  /**
   * No wire of {@link Wires} either: between GPUs of several nodes device functions of the buffer's
   * backend, which kernels call themselves.
   */
  public static final String BACKEND = "backend";

  /** Most lanes to a peer. */
  public static final int MAX_LANES = 1024;

  /** Most counters of a rank. */
  public static final int MAX_COUNTERS = 1 << 24;

  /** Most connections to a peer. */
  public static final int MAX_CONNECTIONS = 256;

  /** Most pieces of work that may be under way to a peer. */
  public static final int MAX_OPERATIONS = 1 << 20;

  /** Checks the values, and settles {@code connections}. */
  public WireConfig {
    range("lanes", lanes, 1, MAX_LANES);
    range("progressContexts", progressContexts, 1, lanes);
    range("counters", counters, 1, MAX_COUNTERS);
    range("bytesInFlight", bytesInFlight, 1, Long.MAX_VALUE);
    range("operationsInFlight", operationsInFlight, 1, MAX_OPERATIONS);
    range("connections", connections, 0, MAX_CONNECTIONS);
    connections = connections == 0 ? progressContexts : connections;
    if (connections % progressContexts != 0) {
      throw new InvalidArgumentException(
          "connections",
          String.valueOf(connections),
          "a multiple of strands = " + progressContexts,
          "each strand has connections of its own");
    }
    if (!timeout.isPositive()) {
      throw new InvalidArgumentException(
          "timeout", timeout.toString(), "positive", "leave it out for 60 s");
    }
  }

  private static void range(String field, long value, long least, long max) {
    if (value < least || value > max) {
      throw new InvalidArgumentException(
          field,
          String.valueOf(value),
          "from " + least + " to " + max,
          "leave it out for the default");
    }
  }

  /** What must be the same on all ranks. */
  String common() {
    // Records print their components by name: the fields, in their order.
    return new WireConfig(
            wire,
            lanes,
            progressContexts,
            counters,
            bytesInFlight,
            operationsInFlight,
            connections,
            encrypted,
            timeout,
            "")
        .toString();
  }

  /**
   * A builder; what is not set is taken from the environment ({@link WireEnvironment}), else it is
   * the default. A wire {@code auto} counts as not set.
   */
  public static Builder builder() {
    return new Builder();
  }

  /** Collects the values of a {@link WireConfig}. */
  public static final class Builder {
    private @Nullable String wire;
    private @Nullable Integer lanes;
    private int progressContexts = 1;
    private int counters = 1024;
    private @Nullable Long bytesInFlight;
    private @Nullable Integer operationsInFlight;
    private @Nullable Integer connections;
    private @Nullable Boolean encrypted;
    private @Nullable Duration timeout;
    private String affinity = "";

    private Builder() {}

    /** Kind of wire. */
    public Builder wire(String wire) {
      this.wire = wire;
      return this;
    }

    /** Lanes to each peer. */
    public Builder lanes(int lanes) {
      this.lanes = lanes;
      return this;
    }

    /** Threads that may drive the wire at once. */
    public Builder progressContexts(int progressContexts) {
      this.progressContexts = progressContexts;
      return this;
    }

    /** Counters of each rank. */
    public Builder counters(int counters) {
      this.counters = counters;
      return this;
    }

    /** Bytes that may be under way from a strand to one peer. */
    public Builder bytesInFlight(long bytesInFlight) {
      this.bytesInFlight = bytesInFlight;
      return this;
    }

    /** Pieces of work that may be under way from a strand to one peer. */
    public Builder operationsInFlight(int operationsInFlight) {
      this.operationsInFlight = operationsInFlight;
      return this;
    }

    /** Connections to each peer. */
    public Builder connections(int connections) {
      this.connections = connections;
      return this;
    }

    /** Whether a wire that leaves the host encrypts. */
    public Builder encrypted(boolean encrypted) {
      this.encrypted = encrypted;
      return this;
    }

    /** How long opening may take. */
    public Builder timeout(Duration timeout) {
      this.timeout = timeout;
      return this;
    }

    /** PCI address of the device whose rows this rank sends. */
    public Builder affinity(String affinity) {
      this.affinity = affinity;
      return this;
    }

    /**
     * The configuration.
     *
     * @throws InvalidArgumentException if a value is bad; names it and the remedy
     */
    public WireConfig build() {
      return build(WireEnvironment.of(System.getenv()));
    }

    /** The configuration in some other environment. */
    WireConfig build(WireEnvironment environment) {
      return new WireConfig(
          wire == null || wire.equals("auto") ? environment.wire() : wire,
          lanes == null ? environment.lanes() : lanes,
          progressContexts,
          counters,
          bytesInFlight == null ? environment.bytesInFlight() : bytesInFlight,
          operationsInFlight == null ? environment.operationsInFlight() : operationsInFlight,
          connections == null ? environment.connections(progressContexts) : connections,
          encrypted == null ? environment.encrypted() : encrypted,
          timeout == null ? environment.timeout() : timeout,
          affinity);
    }
  }
}
