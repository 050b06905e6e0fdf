package org.ep4j.config;

import java.time.Duration;
import java.util.Objects;
import java.util.Optional;
import org.ep4j.ExpertBuffer;
import org.ep4j.engine.Names;
import org.ep4j.error.ErrorCode;
import org.ep4j.error.InvalidArgumentException;
import org.ep4j.routing.ExpertPlacement;
import org.ep4j.tensor.DType;
import org.jspecify.annotations.Nullable;

/**
 * Shape and limits of an {@link ExpertBuffer}. Every rank passes the same values; {@link
 * ExpertBuffer#open} compares them. A buffer has high-throughput operations, low-latency operations
 * or both: each kind has a part of its own. Immutable.
 */
public final class BufferConfig {
  /** Maximum top-k. */
  public static final int MAX_TOP_K = 64;

  private final int hidden;
  private final int topK;
  private final int experts;
  private final @Nullable ExpertPlacement placement;
  private final Optional<HighThroughputConfig> highThroughput;
  private final Optional<LowLatencyConfig> lowLatency;

  /** In nanoseconds a longer one overflows sooner or later. */
  private static final Duration LONGEST_TIMEOUT = Duration.ofDays(365);

  private final Duration timeout;
  private final int parallelism;
  private final String engine;
  private final int ranksPerNode;
  private final String wire;
  private final WireOptions wireOptions;
  private final String backend;

  private BufferConfig(Builder b) {
    hidden = b.hidden;
    topK = b.topK;
    experts = b.experts;
    placement = b.placement;
    highThroughput = Optional.ofNullable(b.highThroughput);
    lowLatency = Optional.ofNullable(b.lowLatency);
    timeout = b.timeout.compareTo(LONGEST_TIMEOUT) < 0 ? b.timeout : LONGEST_TIMEOUT;
    parallelism = b.parallelism;
    engine = b.engine;
    ranksPerNode = b.ranksPerNode;
    wire = b.wire;
    wireOptions = b.wireOptions;
    backend = b.backend;
    checkHidden();
    checkExperts();
    check(
        ErrorCode.TOKEN_LIMIT,
        highThroughput.isPresent() || lowLatency.isPresent(),
        "highThroughput",
        "none",
        "set unless lowLatency is",
        "configure at least one kind of operation");
    checkSettings();
  }

  private void checkHidden() {
    check(
        ErrorCode.HIDDEN_SIZE,
        hidden >= 1,
        "hidden",
        hidden,
        ">= 1",
        "pass the row length of the model");
    if (highThroughput.isPresent()) {
      DType rowDType = highThroughput.get().rowDType();
      int multiple = 128 / rowDType.bits();
      check(
          ErrorCode.HIDDEN_SIZE,
          hidden % multiple == 0,
          "hidden",
          hidden,
          "a multiple of " + multiple + " for " + rowDType + " rows (16-byte rows)",
          "pad to " + (hidden + multiple - hidden % multiple));
    }
    check(
        ErrorCode.HIDDEN_SIZE,
        lowLatency.isEmpty() || hidden % 128 == 0,
        "hidden",
        hidden,
        "a multiple of 128 for low-latency operations",
        "pad to " + (hidden + 127) / 128 * 128);
  }

  private void checkExperts() {
    check(
        ErrorCode.TOP_K,
        topK >= 1 && topK <= MAX_TOP_K,
        "topK",
        topK,
        "1.." + MAX_TOP_K,
        "choose 1 to " + MAX_TOP_K + " experts per token");
    check(
        ErrorCode.EXPERT_PLACEMENT,
        experts >= 1,
        "experts",
        experts,
        ">= 1",
        "pass the number of experts");
    check(
        ErrorCode.TOP_K,
        topK <= experts,
        "topK",
        topK,
        "<= experts (" + experts + ")",
        "choose fewer experts");
    check(
        ErrorCode.EXPERT_PLACEMENT,
        placement == null || placement.experts() == experts,
        "placement",
        placement,
        "a table of " + experts + " experts",
        "pass the same number of experts in both");
  }

  private void checkSettings() {
    check(
        ErrorCode.BUFFER_SETTING,
        !timeout.isNegative() && !timeout.isZero(),
        "timeout",
        timeout,
        "positive",
        "pass the deadline of a wait");
    check(
        ErrorCode.BUFFER_SETTING,
        parallelism >= 0,
        "parallelism",
        parallelism,
        ">= 0",
        "use 0 for the engine's own choice");
    check(
        ErrorCode.BUFFER_SETTING,
        ranksPerNode >= 0,
        "ranksPerNode",
        ranksPerNode,
        ">= 0",
        "use 0 for the nodes that hosts and NVLink make");
  }

  static void check(
      ErrorCode code,
      boolean ok,
      String field,
      @Nullable Object value,
      String limit,
      String remedy) {
    if (!ok) {
      throw new InvalidArgumentException(code, field, String.valueOf(value), limit, remedy);
    }
  }

  /** A builder with the defaults. */
  public static Builder builder() {
    return new Builder();
  }

  /** A builder that starts from this configuration. */
  public Builder toBuilder() {
    Builder b = new Builder();
    b.hidden = hidden;
    b.topK = topK;
    b.experts = experts;
    b.placement = placement;
    b.highThroughput = highThroughput.orElse(null);
    b.lowLatency = lowLatency.orElse(null);
    b.timeout = timeout;
    b.parallelism = parallelism;
    b.engine = engine;
    b.ranksPerNode = ranksPerNode;
    b.wire = wire;
    b.wireOptions = wireOptions;
    b.backend = backend;
    return b;
  }

  /**
   * Largest number of elements per row H. Calls may have shorter rows, all ranks the same in an
   * operation.
   */
  public int hidden() {
    return hidden;
  }

  /** Maximum number of choices per token K, 1 to {@link #MAX_TOP_K}. */
  public int topK() {
    return topK;
  }

  /** Number of experts E. */
  public int experts() {
    return experts;
  }

  /** Experts and their ranks; null until the world size is known. */
  public @Nullable ExpertPlacement placement() {
    return placement;
  }

  /** The high-throughput operations; empty if the buffer has none. */
  public Optional<HighThroughputConfig> highThroughput() {
    return highThroughput;
  }

  /** The low-latency operations; empty if the buffer has none. */
  public Optional<LowLatencyConfig> lowLatency() {
    return lowLatency;
  }

  /** How long an operation waits for a silent peer; default 30 s. */
  public Duration timeout() {
    return timeout;
  }

  /**
   * SMs (CUDA) or threads (host) that an operation may use; 0 (default) = the engine chooses. An
   * open buffer returns the number with which it was opened.
   */
  public int parallelism() {
    return parallelism;
  }

  /** Name of the engine, as in {@link EngineName}. An open buffer returns its engine. */
  public String engine() {
    return engine;
  }

  /**
   * Consecutive ranks that share memory and form a node; the last node may have fewer. 0 (default):
   * the ranks of a host form a node, or those of several hosts that NVLink joins. An open buffer
   * returns the size of its nodes, or 0 if they have different numbers of ranks.
   */
  public int ranksPerNode() {
    return ranksPerNode;
  }

  /**
   * Kind of wire between nodes, as in {@link WireName}; default {@link WireName#AUTO}. An open
   * buffer of several nodes returns its wire.
   */
  public String wire() {
    return wire;
  }

  /**
   * Settings of that wire; default {@link WireOptions#DEFAULT}. An open buffer of several nodes
   * returns the number of lanes, and the values of the settings that its wire has.
   */
  public WireOptions wireOptions() {
    return wireOptions;
  }

  /**
   * How GPUs reach each other, as in {@link BackendName}. {@link BackendName#AUTO} (default) uses
   * the first of these that is set: system property {@code ep4j.backend}, environment variables
   * {@code EP4J_BACKEND} and {@code DEEP_EP_BACKEND}; otherwise {@code direct}. Ignored by engines
   * other than {@code cuda}. An open buffer of the engine {@code cuda} returns its backend.
   */
  public String backend() {
    return backend;
  }

  @Override
  public boolean equals(Object other) {
    return other instanceof BufferConfig c
        && hidden == c.hidden
        && topK == c.topK
        && experts == c.experts
        && Objects.equals(placement, c.placement)
        && highThroughput.equals(c.highThroughput)
        && lowLatency.equals(c.lowLatency)
        && timeout.equals(c.timeout)
        && parallelism == c.parallelism
        && engine.equals(c.engine)
        && ranksPerNode == c.ranksPerNode
        && wire.equals(c.wire)
        && wireOptions.equals(c.wireOptions)
        && backend.equals(c.backend);
  }

  @Override
  public int hashCode() {
    return Objects.hash(
        hidden,
        topK,
        experts,
        placement,
        highThroughput,
        lowLatency,
        timeout,
        parallelism,
        engine,
        ranksPerNode,
        wire,
        wireOptions,
        backend);
  }

  @Override
  public String toString() {
    return "BufferConfig[hidden="
        + hidden
        + ", topK="
        + topK
        + ", experts="
        + experts
        + ", placement="
        + placement
        + ", highThroughput="
        + (highThroughput.isPresent() ? highThroughput.get() : "none")
        + ", lowLatency="
        + (lowLatency.isPresent() ? lowLatency.get() : "none")
        + ", timeout="
        + timeout
        + ", parallelism="
        + parallelism
        + ", engine="
        + engine
        + ", ranksPerNode="
        + ranksPerNode
        + ", wire="
        + wire
        + ", wireOptions="
        + wireOptions
        + ", backend="
        + backend
        + "]";
  }

  /**
   * Collects a configuration. Required: hidden, topK, experts, and {@code highThroughput} or {@code
   * lowLatency}.
   */
  public static final class Builder {
    private int hidden;
    private int topK;
    private int experts;
    private @Nullable ExpertPlacement placement;
    private @Nullable HighThroughputConfig highThroughput;
    private @Nullable LowLatencyConfig lowLatency;
    private Duration timeout = Duration.ofSeconds(30);
    private int parallelism;
    private String engine = EngineName.AUTO;
    private int ranksPerNode;
    private String wire = WireName.AUTO;
    private WireOptions wireOptions = WireOptions.DEFAULT;
    private String backend = BackendName.AUTO;

    private Builder() {}

    /** Elements per row. */
    public Builder hidden(int value) {
      hidden = value;
      return this;
    }

    /** Maximum number of choices per token. */
    public Builder topK(int value) {
      topK = value;
      return this;
    }

    /** Number of experts, placed in consecutive blocks; clears an explicit placement. */
    public Builder experts(int value) {
      experts = value;
      placement = null;
      return this;
    }

    /** Explicit placement; also sets {@code experts}. */
    public Builder placement(ExpertPlacement value) {
      placement = value;
      experts = value.experts();
      return this;
    }

    /** High-throughput operations with these limits. */
    public Builder highThroughput(HighThroughputConfig value) {
      highThroughput = value;
      return this;
    }

    /**
     * High-throughput operations of at most {@code maxTokens} tokens per rank; all else has the
     * defaults of {@link HighThroughputConfig}.
     *
     * @throws InvalidArgumentException if the number is not positive
     */
    public Builder highThroughput(int maxTokens) {
      return highThroughput(HighThroughputConfig.of(maxTokens));
    }

    /** Low-latency operations with these limits. */
    public Builder lowLatency(LowLatencyConfig value) {
      lowLatency = value;
      return this;
    }

    /**
     * Low-latency operations of at most {@code maxTokens} tokens per rank, without masking.
     *
     * @throws InvalidArgumentException if the number is not positive
     */
    public Builder lowLatency(int maxTokens) {
      return lowLatency(LowLatencyConfig.of(maxTokens));
    }

    /** How long an operation waits for a silent peer; more than a year counts as a year. */
    public Builder timeout(Duration value) {
      timeout = value;
      return this;
    }

    /** SMs or threads that an operation may use; 0 = the engine chooses. */
    public Builder parallelism(int value) {
      parallelism = value;
      return this;
    }

    /**
     * A name of {@link EngineName}, or of another engine on the class path.
     *
     * @throws InvalidArgumentException if there is no engine of this name
     */
    public Builder engine(String value) {
      engine = Names.engine(value);
      return this;
    }

    /** Consecutive ranks that form a node; 0 = see {@link BufferConfig#ranksPerNode}. */
    public Builder ranksPerNode(int value) {
      ranksPerNode = value;
      return this;
    }

    /**
     * Kind of wire between nodes: a name of {@link WireName}, or of another wire on the class path.
     *
     * @throws InvalidArgumentException if there is no wire of this name
     */
    public Builder wire(String value) {
      wire = Names.wire(value);
      return this;
    }

    /** Settings of the wire between nodes. */
    public Builder wireOptions(WireOptions value) {
      wireOptions = value;
      return this;
    }

    /**
     * How GPUs reach each other: a name of {@link BackendName}, or of another backend on the class
     * path.
     *
     * @throws InvalidArgumentException if there is no backend of this name
     */
    public Builder backend(String value) {
      backend = Names.backend(value);
      return this;
    }

    /**
     * The configuration.
     *
     * @throws InvalidArgumentException if a value is out of range
     */
    public BufferConfig build() {
      return new BufferConfig(this);
    }
  }
}
