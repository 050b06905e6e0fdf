package org.ep4j;

import java.time.Duration;
import java.util.regex.Pattern;
import org.jspecify.annotations.Nullable;

/**
 * Shape and rules of an {@link ExpertBuffer}; the same on every rank, checked at open.
 *
 * @param hidden elements of a row H
 * @param topK largest number of choices a token K, 1 to 64
 * @param placement experts and their ranks; null until the world size is known
 * @param experts number of experts E
 * @param maxTokens largest number of tokens a rank dispatches at once (high throughput); 0 = the
 *     high-throughput operations are not used
 * @param rowDType widest row that travels: sizes the receive region; default BF16
 * @param maxReceiveRows rows of the receive region; 0 = the worst case of {@code maxTokens}
 * @param expertAlignment largest expert alignment that EXPERT_MAJOR dispatches will use; default
 *     128
 * @param lowLatencyMaxTokens fixed maximum M of tokens a rank in low-latency operations; 0 = they
 *     are not used
 * @param masking complete low-latency operations without ranks that miss the deadline (they become
 *     masked) instead of throwing
 * @param timeout how long an operation waits for a silent peer; default 30 s
 * @param parallelism SMs (CUDA) or threads (host) an operation may use; 0 = the engine's own choice
 * @param engine {@code auto}, {@code host} or {@code cuda}
 * @param ranksPerNode consecutive ranks that share memory and form a node; the last node may have
 *     fewer. 0 (default): the ranks of a host form a node
 * @param wire kind of wire between nodes, as {@link org.ep4j.wire.WireConfig#wire()}, which also
 *     says what {@code auto} (default) takes
 * @param backend how GPUs reach each other: {@code direct}, {@code nccl} or {@code nvshmem}; {@code
 *     auto} (default): what the system property {@code ep4j.backend} or else the variables {@code
 *     EP4J_BACKEND} and {@code DEEP_EP_BACKEND} name, or else {@code direct}. Other engines than
 *     {@code cuda} pay it no attention
 */
public record BufferConfig(
    int hidden,
    int topK,
    int experts,
    @Nullable ExpertPlacement placement,
    int maxTokens,
    DType rowDType,
    long maxReceiveRows,
    int expertAlignment,
    int lowLatencyMaxTokens,
    boolean masking,
    Duration timeout,
    int parallelism,
    String engine,
    int ranksPerNode,
    String wire,
    String backend) {
  /** Largest top-k. */
  public static final int MAX_TOP_K = 64;

  private static final Pattern BACKEND = Pattern.compile("[a-z0-9_-]+");

  /** Checks each field on its own; what depends on the world is checked at open. */
  public BufferConfig {
    check(hidden >= 1, "hidden", hidden, ">= 1", "pass the row length of the model");
    check(
        rowDType == DType.BF16
            || rowDType == DType.FP16
            || rowDType == DType.FP32
            || rowDType == DType.FP8_E4M3
            || rowDType == DType.NVFP4,
        "rowDType",
        rowDType,
        "BF16, FP16, FP32, FP8_E4M3 or NVFP4",
        "choose a payload type");
    int multiple = 128 / rowDType.bits();
    check(
        hidden % multiple == 0,
        "hidden",
        hidden,
        "a multiple of " + multiple + " for " + rowDType + " rows (16-byte rows)",
        "pad to " + (hidden + multiple - hidden % multiple));
    check(topK >= 1 && topK <= MAX_TOP_K, "topK", topK, "1.." + MAX_TOP_K, "choose fewer experts");
    check(experts >= 1, "experts", experts, ">= 1", "pass the number of experts");
    check(topK <= experts, "topK", topK, "<= experts (" + experts + ")", "choose fewer experts");
    check(
        placement == null || placement.experts() == experts,
        "placement",
        placement,
        "a table of " + experts + " experts",
        "make both agree");
    check(maxTokens >= 0, "maxTokens", maxTokens, ">= 0", "pass the largest batch");
    check(
        lowLatencyMaxTokens >= 0,
        "lowLatencyMaxTokens",
        lowLatencyMaxTokens,
        ">= 0",
        "pass the largest decode batch");
    check(
        maxTokens > 0 || lowLatencyMaxTokens > 0,
        "maxTokens",
        maxTokens,
        "positive unless lowLatencyMaxTokens is",
        "a buffer serves at least one kind of operation");
    check(
        lowLatencyMaxTokens == 0 || hidden % 128 == 0,
        "hidden",
        hidden,
        "a multiple of 128 for low-latency operations",
        "pad to " + (hidden + 127) / 128 * 128);
    check(maxReceiveRows >= 0, "maxReceiveRows", maxReceiveRows, ">= 0", "0 = worst case");
    check(expertAlignment >= 1, "expertAlignment", expertAlignment, ">= 1", "1 = none");
    check(
        !timeout.isNegative() && !timeout.isZero(),
        "timeout",
        timeout,
        "positive",
        "every wait has a deadline");
    check(parallelism >= 0, "parallelism", parallelism, ">= 0", "0 = the engine's own choice");
    check(ranksPerNode >= 0, "ranksPerNode", ranksPerNode, ">= 0", "0 = the ranks of a host");
    check(!wire.isBlank(), "wire", "''", "a kind of wire", "leave it out for 'auto'");
    check(
        BACKEND.matcher(backend).matches(),
        "backend",
        "'" + backend + "'",
        "a name in lower case: auto, direct, nccl, nvshmem",
        "leave it out for 'auto'");
  }

  private static void check(
      boolean ok, String field, @Nullable Object value, String limit, String remedy) {
    if (!ok) {
      throw new InvalidArgumentException(field, String.valueOf(value), limit, remedy);
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
    b.maxTokens = maxTokens;
    b.rowDType = rowDType;
    b.maxReceiveRows = maxReceiveRows;
    b.expertAlignment = expertAlignment;
    b.lowLatencyMaxTokens = lowLatencyMaxTokens;
    b.masking = masking;
    b.timeout = timeout;
    b.parallelism = parallelism;
    b.engine = engine;
    b.ranksPerNode = ranksPerNode;
    b.wire = wire;
    b.backend = backend;
    return b;
  }

  /** Collects a configuration. Required: hidden, topK, experts and a token maximum. */
  public static final class Builder {
    private int hidden;
    private int topK;
    private int experts;
    private @Nullable ExpertPlacement placement;
    private int maxTokens;
    private DType rowDType = DType.BF16;
    private long maxReceiveRows;
    private int expertAlignment = 128;
    private int lowLatencyMaxTokens;
    private boolean masking;
    private Duration timeout = Duration.ofSeconds(30);
    private int parallelism;
    private String engine = "auto";
    private int ranksPerNode;
    private String wire = "auto";
    private String backend = "auto";

    private Builder() {}

    /** Elements of a row. */
    public Builder hidden(int value) {
      hidden = value;
      return this;
    }

    /** Largest number of choices a token. */
    public Builder topK(int value) {
      topK = value;
      return this;
    }

    /** Number of experts, placed in blocks. */
    public Builder experts(int value) {
      experts = value;
      placement = null;
      return this;
    }

    /** An explicit placement; sets {@code experts} too. */
    public Builder placement(ExpertPlacement value) {
      placement = value;
      experts = value.experts();
      return this;
    }

    /** Largest number of tokens a rank, high throughput. */
    public Builder maxTokens(int value) {
      maxTokens = value;
      return this;
    }

    /** Widest row that travels. */
    public Builder rowDType(DType value) {
      rowDType = value;
      return this;
    }

    /** Rows of the receive region, 0 = worst case. */
    public Builder maxReceiveRows(long value) {
      maxReceiveRows = value;
      return this;
    }

    /** Largest expert alignment. */
    public Builder expertAlignment(int value) {
      expertAlignment = value;
      return this;
    }

    /** Fixed maximum of tokens a rank, low latency. */
    public Builder lowLatencyMaxTokens(int value) {
      lowLatencyMaxTokens = value;
      return this;
    }

    /** Whether late ranks are masked instead of failing the operation. */
    public Builder masking(boolean value) {
      masking = value;
      return this;
    }

    /** How long a silent peer is waited for. */
    public Builder timeout(Duration value) {
      timeout = value;
      return this;
    }

    /** SMs or threads an operation may use. */
    public Builder parallelism(int value) {
      parallelism = value;
      return this;
    }

    /** {@code auto}, {@code host} or {@code cuda}. */
    public Builder engine(String value) {
      engine = value;
      return this;
    }

    /** Consecutive ranks that form a node, 0 = those of a host. */
    public Builder ranksPerNode(int value) {
      ranksPerNode = value;
      return this;
    }

    /** Kind of wire between nodes. */
    public Builder wire(String value) {
      wire = value;
      return this;
    }

    /** How GPUs reach each other. */
    public Builder backend(String value) {
      backend = value;
      return this;
    }

    /** The configuration. */
    public BufferConfig build() {
      return new BufferConfig(
          hidden,
          topK,
          experts,
          placement,
          maxTokens,
          rowDType,
          maxReceiveRows,
          expertAlignment,
          lowLatencyMaxTokens,
          masking,
          timeout,
          parallelism,
          engine,
          ranksPerNode,
          wire,
          backend);
    }
  }
}
