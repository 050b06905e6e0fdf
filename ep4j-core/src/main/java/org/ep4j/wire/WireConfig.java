package org.ep4j.wire;

import java.time.Duration;
import javax.net.ssl.SSLContext;
import org.ep4j.config.WireName;
import org.ep4j.config.WireOptions;
import org.ep4j.error.ErrorCode;
import org.ep4j.error.InvalidArgumentException;
import org.jspecify.annotations.Nullable;

/**
 * Configuration of a wire. All ranks pass the same values except {@code affinity}; opening names
 * the rank and the field that differ. Immutable.
 *
 * @param wire kind of wire, as in {@link WireName}; {@code auto} (default) uses {@code inproc} for
 *     threads of one JVM, {@code shm} for processes of one host, and between hosts {@code verbs} if
 *     a probe reaches all ranks over RDMA ports, else {@code tcp}
 * @param options lanes, and settings of single kinds of wire. Ranks compare only whether they have
 *     an {@code sslContext}. An open wire returns the number of lanes, and the values of those
 *     settings that it has
 * @param progressContexts number of threads that may drive the wire at the same time; default 1
 * @param counters counters of each rank; default 1024
 * @param bytesInFlight bytes that may be in flight from a progress context to one peer; default 64
 *     MiB. A larger put is accepted alone
 * @param operationsInFlight pieces of work that may be in flight from a progress context to one
 *     peer; default 1024
 * @param connections connections to each peer, for wires that have connections; a multiple of
 *     {@code progressContexts}; 0 (default) = one per progress context. Lane {@code i} uses
 *     connection {@code i % connections}
 * @param encrypted whether a wire that leaves the host encrypts (TLS 1.3); by default it does if
 *     the options have an {@code sslContext}
 * @param timeout maximum time of each step of opening; default 60 s; more than a year counts as a
 *     year
 * @param affinity PCI address of the device whose rows this rank sends, as its driver writes it
 *     ({@code 0000:18:00.0}); empty (default) if the rows are in host memory. A hint for wires that
 *     choose between ports; ranks may differ
 */
public record WireConfig(
    String wire,
    WireOptions options,
    int progressContexts,
    int counters,
    long bytesInFlight,
    int operationsInFlight,
    int connections,
    boolean encrypted,
    Duration timeout,
    String affinity) {
  /** In nanoseconds a longer one overflows sooner or later. */
  private static final Duration LONGEST_TIMEOUT = Duration.ofDays(365);

  /** Lanes of a progress context, for wires that choose no other number. */
  static final int DEFAULT_LANES = 4;

  /** Maximum number of counters of a rank. */
  public static final int MAX_COUNTERS = 1 << 24;

  /** Maximum number of connections to a peer. */
  public static final int MAX_CONNECTIONS = 256;

  /** Maximum number of pieces of work in flight to a peer. */
  public static final int MAX_OPERATIONS = 1 << 20;

  /**
   * Checks the values, and resolves {@code connections}.
   *
   * @throws InvalidArgumentException if a value is out of range
   */
  public WireConfig {
    range("progressContexts", progressContexts, 1, options.lanesOr(WireOptions.MAX_LANES));
    range("counters", counters, 1, MAX_COUNTERS);
    range("bytesInFlight", bytesInFlight, 1, Long.MAX_VALUE);
    range("operationsInFlight", operationsInFlight, 1, MAX_OPERATIONS);
    range("connections", connections, 0, MAX_CONNECTIONS);
    connections = connections == 0 ? progressContexts : connections;
    if (connections % progressContexts != 0) {
      throw new InvalidArgumentException(
          ErrorCode.WIRE_SETTING,
          "connections",
          String.valueOf(connections),
          "a multiple of progressContexts (" + progressContexts + ")",
          "use the same number of connections for each progress context");
    }
    if (options.sslContext().isPresent() && !encrypted) {
      throw new InvalidArgumentException(
          ErrorCode.WIRE_SETTING,
          "sslContext",
          "given",
          "left out of a wire that does not encrypt",
          "set encrypted to true");
    }
    if (!timeout.isPositive()) {
      throw new InvalidArgumentException(
          ErrorCode.WIRE_SETTING,
          "timeout",
          timeout.toString(),
          "positive",
          "leave the field out for 60 s");
    }
    timeout = timeout.compareTo(LONGEST_TIMEOUT) < 0 ? timeout : LONGEST_TIMEOUT;
  }

  private static void range(String field, long value, long least, long max) {
    if (value < least || value > max) {
      throw new InvalidArgumentException(
          ErrorCode.WIRE_SETTING,
          field,
          String.valueOf(value),
          "from " + least + " to " + max,
          "leave the field out for the default");
    }
  }

  /** The fields that must be the same on all ranks. */
  String common() {
    // Records print their components by name, in order.
    return with(options, "").toString();
  }

  /**
   * Lanes to each peer; 0 if they are left open, which those of an open wire are not. Allocates
   * nothing.
   */
  public int lanes() {
    return options.lanesOr(0);
  }

  /** Certificates and trust of the caller, see {@link WireOptions#sslContext}; null without. */
  public @Nullable SSLContext sslContext() {
    return options.sslContext().orElse(null);
  }

  /**
   * For wires: this configuration, with {@code perProgressContext} lanes for each progress context
   * if it leaves them open. At most {@link WireOptions#MAX_LANES}, and as many for each progress
   * context.
   */
  public WireConfig settled(int perProgressContext) {
    int each = Math.min(perProgressContext, WireOptions.MAX_LANES / progressContexts);
    return options.lanes().isPresent()
        ? this
        : with(options.toBuilder().lanes(each * progressContexts).build());
  }

  /** For wires: this configuration with other options. */
  public WireConfig with(WireOptions other) {
    return with(other, affinity);
  }

  private WireConfig with(WireOptions otherOptions, String otherAffinity) {
    return new WireConfig(
        wire,
        otherOptions,
        progressContexts,
        counters,
        bytesInFlight,
        operationsInFlight,
        connections,
        encrypted,
        timeout,
        otherAffinity);
  }

  /**
   * A builder. A value that is not set comes from the environment ({@link WireEnvironment}),
   * otherwise from the defaults. {@code auto} as wire counts as not set.
   */
  public static Builder builder() {
    return new Builder();
  }

  /** Collects the values of a {@link WireConfig}. */
  public static final class Builder {
    private @Nullable String wire;
    private WireOptions options = WireOptions.DEFAULT;
    private int progressContexts = 1;
    private int counters = 1024;
    private @Nullable Long bytesInFlight;
    private @Nullable Integer operationsInFlight;
    private @Nullable Integer connections;
    private @Nullable Boolean encrypted;
    private @Nullable Duration timeout;
    private String affinity = "";

    private Builder() {}

    /**
     * Kind of wire.
     *
     * @throws InvalidArgumentException if there is no wire of this name
     */
    public Builder wire(String wire) {
      this.wire = Wires.requireKnown(wire);
      return this;
    }

    /** Lanes to each peer, as {@link WireOptions#lanes()}. */
    public Builder lanes(int lanes) {
      options = options.toBuilder().lanes(lanes).build();
      return this;
    }

    /**
     * Lanes, certificates, and settings of single kinds of wire; replaces earlier ones, also those
     * of {@link #lanes} and {@link #sslContext}.
     */
    public Builder options(WireOptions options) {
      this.options = options;
      return this;
    }

    /** Number of threads that may drive the wire at the same time. */
    public Builder progressContexts(int progressContexts) {
      this.progressContexts = progressContexts;
      return this;
    }

    /** Counters of each rank. */
    public Builder counters(int counters) {
      this.counters = counters;
      return this;
    }

    /** Bytes that may be in flight from a progress context to one peer. */
    public Builder bytesInFlight(long bytesInFlight) {
      this.bytesInFlight = bytesInFlight;
      return this;
    }

    /** Pieces of work that may be in flight from a progress context to one peer. */
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

    /** Maximum time for opening. */
    public Builder timeout(Duration timeout) {
      this.timeout = timeout;
      return this;
    }

    /** PCI address of the device whose rows this rank sends. */
    public Builder affinity(String affinity) {
      this.affinity = affinity;
      return this;
    }

    /** Certificates and trust of the caller, as {@link WireOptions#sslContext()}. */
    public Builder sslContext(SSLContext sslContext) {
      options = options.toBuilder().sslContext(sslContext).build();
      return this;
    }

    /**
     * The configuration.
     *
     * @throws InvalidArgumentException if a value is out of range; names the value and the remedy
     */
    public WireConfig build() {
      return build(WireEnvironment.of(System.getenv()));
    }

    /** The configuration with the values of another environment. */
    WireConfig build(WireEnvironment environment) {
      return new WireConfig(
          wire == null || wire.equals(WireName.AUTO) ? environment.wire() : wire,
          options.lanes().isPresent() ? options : environment.options(options, progressContexts),
          progressContexts,
          counters,
          bytesInFlight == null ? environment.bytesInFlight() : bytesInFlight,
          operationsInFlight == null ? environment.operationsInFlight() : operationsInFlight,
          connections == null ? environment.connections(progressContexts) : connections,
          encrypted == null
              ? environment.encrypted() || options.sslContext().isPresent()
              : encrypted,
          timeout == null ? environment.timeout() : timeout,
          affinity);
    }
  }
}
